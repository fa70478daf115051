"""What is made of an object once, and then used again and again."""

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

T = TypeVar("T")
_MADE: dict[tuple[Callable, int], tuple[weakref.ref, Any]] = {}


def once(make: Callable[[Any], T], x: Any) -> T:
    """`make(x)`, made once for each object, and kept as long as the object is."""
    place = (make, id(x))
    known = _MADE.get(place)
    if known is not None and known[0]() is x:
        return known[1]
    made = make(x)
    _MADE[place] = (weakref.ref(x, lambda _: _MADE.pop(place, None)), made)
    return made


def on_device(constants: T) -> T:
    """The same module with its Python numbers as JAX arrays, made once for each object.

    A number costs several microseconds on every call of a compiled function, an array next to nothing; an environment and a config have
    twenty of them.
    """
    return once(_on_device, constants)


def _on_device(constants: T) -> T:
    with jax.ensure_compile_time_eval():  # arrays, not tracers, whatever is being traced
        return jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, bool | int | float) else x, constants)
