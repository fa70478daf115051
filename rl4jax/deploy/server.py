"""A policy over HTTP: `rl4jax serve DIR`, then `POST /act` with `{"obs": ...}`. NumPy and onnxruntime, no JAX.

The server remembers nothing of a client: a policy with memory gives its `carry` away with each answer, and wants it back with the next
question. See `http_server` for what keeps clients from disturbing each other.
"""

import json
import os
import shlex
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from rl4jax.core.errors import ConfigError, EnvError, ShapeError, did_you_mean, is_count, require

from .codec import MASK, SpaceSpec, as_array, leaf_specs, leaves
from .http_json import Refused, Route, read_object, write_json
from .http_server import JsonServer, Limits
from .metrics import Metrics
from .policy import Policy, load

STOP_SECONDS = 5.0  # for what is being answered when the server is stopped
LONGEST_EXAMPLE = 300  # characters of a line to copy


def serve(
    folder: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    token: str | None = None,
    max_body: int = Limits.max_body,
    max_batch: int = 256,
) -> None:
    """Answer with the policy of a bundle until SIGINT or SIGTERM, then finish what is being answered.

    Others than this machine reach it only if `host` says so, such as "0.0.0.0"; with a `token` they have to know it. There is no TLS:
    put a proxy in front for that.
    """
    where = threading.current_thread().name
    require(threading.current_thread() is threading.main_thread(), "deploy.serve: thread", where, "the main one", "Use deploy.Server.")
    server = Server(load(folder), host=host, port=port, token=token, max_body=max_body, max_batch=max_batch)
    signals: list[int] = []
    with server:
        old = {number: signal.signal(number, lambda number, _: signals.append(number)) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            print(f"{server.policy} answers on {server.url}. Ctrl-C stops it.\n  {server.example_line()}", flush=True)
            while not signals:  # not on a lock, which would miss a signal that comes just before
                time.sleep(0.1)
        finally:  # a second Ctrl-C stops at once
            for number, handler in old.items():
                signal.signal(number, handler)


class Server:
    """A policy that answers while `with Server(policy, port=0) as server` lasts, at `server.url`. Port 0 is any that is free."""

    def __init__(
        self,
        policy: Policy,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        token: str | None = None,
        max_body: int = Limits.max_body,
        max_batch: int = 256,
        max_clients: int = Limits.max_clients,
        request_seconds: float = Limits.request_seconds,
    ):
        require(isinstance(policy, Policy), "deploy.Server: policy", policy, "a Policy", "Give deploy.load(folder).")
        require(
            isinstance(host, str) and host != "", "host", host, "a text, such as '127.0.0.1', or '0.0.0.0' for all that reach this machine"
        )
        require(isinstance(port, int) and not isinstance(port, bool) and 0 <= port < 1 << 16, "port", port, "an integer from 0 to 65535")
        require(is_count(max_batch), "max_batch", max_batch, "a positive integer")
        self.policy, self.max_batch, self.metrics = policy, max_batch, Metrics()
        self.limits = Limits(max_body=max_body, max_clients=max_clients, request_seconds=request_seconds)
        routes = {
            "/": Route("GET", lambda _: write_json(self.describe())),
            "/act": Route("POST", self._act, computes=True),
            "/health": Route("GET", lambda _: write_json({"status": "ok", "policy": about(policy)}), open=True),
            "/metrics": Route("GET", lambda _: self.metrics.text().encode(), "text/plain; version=0.0.4; charset=utf-8"),
        }
        try:
            self._http = JsonServer((host, port), routes, self.metrics.count, token=token, limits=self.limits)
        except (OSError, UnicodeError, TypeError) as error:  # the last two of a name that can be none
            raise ConfigError(f"host = {host!r}, port = {port}: cannot listen there: {error}. Give another, or port 0 for any.") from error
        if token is None and self._http.names is None:
            warnings.warn(f"host = {host} lets other machines ask, and there is no token. Set RL4JAX_TOKEN, or give one.", stacklevel=2)
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # all addresses of this machine: one that can be asked
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._http.server_address[1]}"

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Answer, on threads of its own."""
        self._http.start()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Take no more requests, and give those that have begun so long."""
        self._http.stop(seconds)

    def describe(self) -> dict[str, Any]:
        """What can be asked."""
        config = self.policy.config
        return {
            "policy": about(self.policy),
            "ask": {
                "GET /": "this",
                "POST /act": 'an action: {"obs": ..., "carry": that of the last answer or null, "mask": true where allowed, or null}',
                "GET /health": "whether it answers",
                "GET /metrics": "for Prometheus",
            },
            "obs": config["observation_space"],
            "carry": {carry["name"]: carry for carry in config["carry"]} or None,
            "mask": config["mask"],
            "action": config["action_space"],
            "outputs": config["outputs"],
            "limits": {"max_body": self.limits.max_body, "max_batch": self.max_batch},
            "example": example(self.policy),
        }

    def example_line(self) -> str:
        """A line to copy into a shell."""
        header = ' -H "Authorization: Bearer $RL4JAX_TOKEN"' if self._http.token is not None else ""
        line = f"curl {shlex.quote(self.url + '/act')}{header} -d {shlex.quote(json.dumps(example(self.policy)))}"
        return line if len(line) <= LONGEST_EXAMPLE else f"curl {shlex.quote(self.url + '/')}{header}"

    def _act(self, body: bytes) -> bytes:
        try:
            obs, carry, mask, size = read_question(self.policy, body, self.max_batch)
            said = self.policy.outputs(obs, carry, mask)
        except (ShapeError, EnvError) as error:
            raise Refused(422, str(error)) from error
        self.metrics.sizes.observe(float(size))
        return write_json(as_lists(said, ""))


def about(policy: Policy) -> dict[str, Any]:
    return {name: policy.config.get(name) for name in ("algorithm", "env")} | {
        "recurrent": bool(policy.config["carry"]),
        "masked": policy.config["mask"] is not None,
        "samples": bool(policy.config["noise"]),
    }


def read_question(policy: Policy, body: bytes, max_batch: int) -> tuple[Any, Any, Any, int]:
    """Observation, carry and mask, all of numbers, and how many examples they are of. The rest the policy checks."""
    asked, config = read_object(body), policy.config
    unknown = set(asked) - {"obs", "carry", "mask"}
    if unknown:
        name = min(unknown)
        raise Refused(422, f"There is no argument {name[:50]!r}. {did_you_mean(name[:50], ['obs', 'carry', 'mask'])}")
    if asked.get("obs") is None:
        raise Refused(422, f"obs is missing. Send it, as in {json.dumps(example(policy))}")
    obs, carry, mask = asked["obs"], asked.get("carry"), asked.get("mask")
    parts = [(leaf, array_of(leaf, x, name)) for leaf, x, name in leaves(config["observation_space"], obs, "obs")]
    size = max(len(x) if x.ndim > len(leaf["shape"]) else 1 for leaf, x in parts)
    if size > max_batch:
        raise Refused(413, f"obs is a batch of {size}; at most {max_batch} are answered at once. Send less, or raise --max-batch.")
    if mask is None and config["mask"] and config["mask"]["in_obs"]:
        mask = obs.get(MASK)
    if mask is not None:
        only_numbers(mask, "mask")
    for name, x in carry.items() if isinstance(carry, dict) else ():
        only_numbers(x, f"carry[{name!r}]")
    return rebuilt(config["observation_space"], iter([x for _, x in parts])), carry, mask, size


def array_of(spec: SpaceSpec, x: Any, name: str) -> np.ndarray:
    only_numbers(x, name)
    return as_array(x, spec["shape"], name, spec["dtype"])


def only_numbers(x: Any, name: str, depth: int = 0) -> None:
    """Raise unless it is a number, or lists in lists of numbers. Of a text among them NumPy would make texts of all, each as long."""
    kinds = set(map(type, x)) if isinstance(x, list) else {type(x)}
    if depth > 32:
        raise Refused(422, f"{name} is nested too deep. Send lists no deeper than the observation has axes, and one for a batch.")
    if kinds == {list}:
        for part in x:
            only_numbers(part, name, depth + 1)
    elif not kinds <= {int, float, bool}:
        called = {str: "a text", dict: "an object", list: "a list beside numbers", type(None): "null (is it a NaN of JavaScript?)"}
        wrong = next(called[kind] for kind in called if kind in kinds)
        raise Refused(422, f"{name} has {wrong} in it. Send numbers only, in lists.")


def rebuilt(spec: SpaceSpec, parts: Iterator[np.ndarray]) -> Any:
    """An observation of its parts, in the order of `leaves`."""
    if spec["type"] == "Dict":
        return {key: rebuilt(part, parts) for key, part in spec["spaces"].items()}
    if spec["type"] == "Tuple":
        return tuple(rebuilt(part, parts) for part in spec["spaces"])
    return next(parts)


def as_lists(x: Any, name: str) -> Any:
    """Arrays as JSON has them."""
    if x is None:
        return None
    if isinstance(x, dict):
        return {key: as_lists(part, key) for key, part in x.items()}
    if isinstance(x, tuple):
        return [as_lists(part, name) for part in x]
    if not np.isfinite(x).all():
        raise Refused(
            422, f"The policy answers with a {name} that is not finite. Look at obs and carry: their numbers are too large for it."
        )
    return x.tolist()


def example(policy: Policy) -> dict[str, Any]:
    """A question that can be asked."""
    config = policy.config
    spec, mask = config["observation_space"], config["mask"]
    obs = rebuilt(spec, zeros(spec))
    obs = obs | {MASK: [True] * mask["size"]} if mask and mask["in_obs"] else obs
    return (
        {"obs": obs}
        | ({"carry": None} if config["carry"] else {})
        | ({"mask": [True] * mask["size"]} if mask and not mask["in_obs"] else {})
    )


def zeros(spec: SpaceSpec) -> Iterator[Any]:
    """The first that there is, of each part of a space, as lists."""
    for leaf in leaf_specs(spec):
        yield (np.zeros(leaf["shape"], leaf["dtype"]) + np.asarray(leaf.get("start", 0))).tolist()
