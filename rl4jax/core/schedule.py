"""Settings that change as training goes on."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from .errors import require
from .number import Number, is_concrete

Schedule = Callable[[ArrayLike], ArrayLike]  # from the number of updates done to a value: ours, Optax's or your own


class Linear(eqx.Module):
    """From `start` to `end` in a straight line over `num_updates` updates, and `end` from then on.

    >>> float(Linear(1.0, 0.0, num_updates=4)(1))
    0.75
    """

    start: Number
    end: Number
    num_updates: Number

    def __check_init__(self):
        if is_concrete(self.num_updates):
            require(bool(self.num_updates > 0), "Linear.num_updates", self.num_updates, "a positive number of updates")

    def __call__(self, num_updates: ArrayLike) -> Float[Array, ""]:
        share = jnp.clip(num_updates / self.num_updates, 0.0, 1.0)
        return jnp.asarray(self.start + share * (self.end - self.start))


class Function(eqx.Module):
    """A schedule that is any function of the number of updates, such as one of Optax."""

    function: Schedule = eqx.field(static=True)

    def __call__(self, num_updates: ArrayLike) -> ArrayLike:
        return self.function(num_updates)


def as_setting(x: Any) -> Any:
    """A number or a schedule as it may stand in a config: functions become static."""
    return x if isinstance(x, eqx.Module) or not callable(x) else Function(x)  # pyright: ignore[reportArgumentType]


def value_at(setting: Number | Schedule, num_updates: ArrayLike) -> Number:
    """What a number or a schedule says after so many updates."""
    return jnp.asarray(setting(num_updates)) if callable(setting) else setting
