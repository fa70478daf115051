"""The type of a physical constant."""

from jaxtyping import Array

Number = float | int | Array  # an array when the constant is batched: `jax.vmap` over gravity, say
