"""The type of a constant: of physics, or of a config."""

from jax.core import Tracer
from jaxtyping import Array

Number = float | int | Array  # an array when it is batched: `jax.vmap` over gravity or learning rates, say


def is_concrete(x: object) -> bool:
    """Whether a number can be looked at: it is not a value inside a traced program."""
    return not isinstance(x, Tracer)
