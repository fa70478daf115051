"""What is asked over HTTP and what is answered: JSON in and out, and a reason with each refusal."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from rl4jax.core.errors import Rl4JaxError

LONGEST_REASON = 500  # characters: a reason may quote the request


class Refused(Rl4JaxError):
    """A request that is not answered, and why."""

    def __init__(self, status: int, reason: str, **headers: str):
        super().__init__(reason)
        self.status, self.headers = status, headers


class Answer(NamedTuple):
    """What goes back to a client."""

    status: int
    body: bytes
    headers: dict[str, str]


class Route(NamedTuple):
    """What answers a path: a function of the body of the request."""

    method: str
    answer: Callable[[bytes], bytes]
    kind: str = "application/json"
    open: bool = False  # to those without the token too
    computes: bool = False  # and so waits for others that do


def refusal(error: Refused) -> Answer:
    reason = str(error)
    reason = reason if len(reason) <= LONGEST_REASON else reason[:LONGEST_REASON] + " ..."
    return Answer(error.status, write_json({"error": reason}), {"Content-Type": "application/json", **error.headers})


def read_object(body: bytes) -> dict[str, Any]:
    """An object of JSON. Numbers may be too large or no numbers: whoever knows their names checks them."""
    try:
        value = json.loads(body, object_pairs_hook=_once_each)
    except RecursionError:
        raise Refused(400, "The body is nested too deep. Send lists as deep as the observation has axes, and one for a batch.") from None
    except ValueError as error:
        raise Refused(400, f"The body is not JSON: {error}. GET / shows a right one.") from None
    if not isinstance(value, dict):
        raise Refused(422, f'The body is a {type(value).__name__}; it must be an object, {{"obs": ...}}. GET / shows a right one.')
    return value


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = {}
    for name, x in pairs:
        if name in value:
            raise Refused(400, f"{name!r} is given twice in one object. Give it once.")
        value[name] = x
    return value


def write_json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode() + b"\n"
