"""The built-in environments by name. Imports no JAX, so that `import rl4jax` stays quick."""

import ast
import dataclasses
import importlib
from typing import TYPE_CHECKING, Any

from rl4jax.core.errors import ConfigError, EnvError, did_you_mean

if TYPE_CHECKING:
    import rl4jax.core.env

BUILT_IN: tuple[str, ...] = (
    "CartPole",
    "CartPoleNoVel",
    "Pendulum",
    "MountainCar",
    "MountainCarContinuous",
    "Acrobot",
    "GridWorld",
    "Memory",
    "MultiDiscreteNav",
    "Catch",
    "ProbeConstant",
    "ProbeObservation",
    "ProbeDiscount",
    "ProbeAction",
    "ProbeContext",
)


def parse(typed: str) -> tuple[str, dict[str, Any]]:
    """The name of a built-in environment and the fields that follow it.

    >>> parse("Catch, rows=16")
    ('Catch', {'rows': 16})
    """
    name, *parts = typed.split(",")
    return name.strip(), dict(_field(part, typed) for part in parts)


def _field(part: str, typed: str) -> tuple[str, Any]:
    field, _, value = part.partition("=")
    try:
        return field.strip(), ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise EnvError(f"{typed[:100]}: {part[:100]!r} is not FIELD=NUMBER, as in Catch,rows=16,columns=16.") from error


def make(name: str, **fields: Any) -> "rl4jax.core.env.AbstractEnv":
    """A built-in environment, with some of its fields changed.

    >>> make("CartPole", gravity=1.6).gravity
    1.6
    """
    if not isinstance(name, str):
        raise EnvError(f"make({name!r}): the name must be a string, such as 'CartPole'. A class makes its environments itself: CartPole().")
    if name not in BUILT_IN:
        raise EnvError(f"make({name!r}): there is no such built-in environment. {did_you_mean(name, BUILT_IN)}")
    env_class = getattr(importlib.import_module("rl4jax.envs"), name)
    known = {field.name: field.default for field in dataclasses.fields(env_class)}
    for field in fields:
        if field not in known:
            raise ConfigError(f"make({name!r}): {name} has no field {field!r}. {did_you_mean(field, known)}")
    for field, value in fields.items():
        is_word = isinstance(value, str) and isinstance(known[field], str)
        if not is_word and not isinstance(value, bool | int | float) and not hasattr(value, "dtype"):
            raise ConfigError(f"make({name!r}): {field} = {value!r} must be a number or an array.")
    return env_class(**fields)
