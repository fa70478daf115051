"""A linear layer cut into blocks that do not see each other."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rl4jax.core.errors import choose_divisor, is_count, require

from .truncated_normal import truncated_weights


class BlockLinear(eqx.Module):
    """`num_blocks` linear layers side by side, each from its own part of the input to its own part of the output.

    The weights are as large at the start as those of a whole layer with the same inputs.
    """

    weight: Float[Array, "K I O"]
    bias: Float[Array, " E"]

    def __init__(self, d_in: int, d_out: int, num_blocks: int, *, key: PRNGKeyArray):
        for name, size in (("d_in", d_in), ("d_out", d_out)):
            fits = is_count(size) and is_count(num_blocks) and size % num_blocks == 0
            require(fits, f"BlockLinear: num_blocks, for {name} = {size},", num_blocks, "a divisor of it", choose_divisor(size))
        self.weight = truncated_weights(key, (num_blocks, d_in // num_blocks, d_out // num_blocks), d_in)
        self.bias = jnp.zeros(d_out)

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, " E"]:
        return jnp.concatenate(by_blocks(x, self.weight)) + self.bias


def by_blocks(x: Float[Array, " D"], weight: Float[Array, "K I O"]) -> list[Float[Array, " O"]]:
    """Each part of x times its own matrix. One by one: for a batch XLA on CPUs is more than twice as fast as with a batch of products."""
    return [part @ matrix for part, matrix in zip(jnp.split(x, len(weight)), weight, strict=True)]
