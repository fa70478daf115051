"""A model whose parameters are one vector: for loops in Python, where each array that goes in or out of a compiled program costs time."""

import itertools
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .packed import Packed, Rest


class FlatModel(eqx.Module):
    """The same model to whoever calls it."""

    vector: Float[Array, " P"]  # by name, in the order in which JAX goes through a dict
    buffers: dict[str, Any]
    rest: Rest = eqx.field(static=True)
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = eqx.field(static=True)

    def __init__(self, packed: Packed):
        self.vector = ravel_pytree(packed.params)[0]
        self.buffers, self.rest = packed.buffers, packed.rest
        self.shapes = tuple((name, jnp.shape(packed.params[name])) for name in sorted(packed.params))

    def __call__(self, *args: Any) -> Any:
        return self.model(*args)

    @property
    def model(self) -> Any:
        """The model as it was; it may be any module, such as a config."""
        return Packed(self.params_of(self.vector), self.buffers, self.rest).model

    def params_of(self, vector: Float[Array, " P"]) -> dict[str, Float[Array, "..."]]:
        """A vector as parameters by name."""
        if not self.shapes:
            return {}
        ends = list(itertools.accumulate(math.prod(shape) for _, shape in self.shapes))
        return {name: x.reshape(shape) for (name, shape), x in zip(self.shapes, jnp.split(vector, ends[:-1]), strict=True)}
