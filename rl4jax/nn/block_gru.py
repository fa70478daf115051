"""A GRU whose memory is cut into blocks that only see themselves."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from rl4jax.core.errors import choose_divisor, is_count, require

from .gru import cell, run
from .recurrent import AbstractCore, Input, check_sizes, gate_weights, no_memory, project


class BlockGRU(AbstractCore):
    """A `GRU` with block-diagonal recurrent weights `[num_blocks, H / num_blocks, 3 H / num_blocks]`; one block is a GRU.

    The input reaches all blocks, so `num_blocks` divides the recurrent weights and only those. Gates r, z, n lie side by side within each
    block, in the columns of `weight_ih` too.
    """

    weight_ih: Float[Array, "D G"]
    weight_hh: Float[Array, "K I O"]
    bias: Float[Array, " G"]
    bias_n: Float[Array, " H"]

    def __init__(self, d_in: int, d_hidden: int, num_blocks: int = 8, *, key: PRNGKeyArray):
        check_sizes("BlockGRU", d_in, d_hidden)
        fits = is_count(num_blocks) and d_hidden % num_blocks == 0
        require(fits, "BlockGRU: num_blocks", num_blocks, f"a divisor of d_hidden = {d_hidden}", choose_divisor(d_hidden))
        size = d_hidden // num_blocks
        _, in_key, hidden_key = jax.random.split(key, 3)
        # Orthogonal gate by gate over all blocks, then sorted by block.
        inputs = gate_weights(d_in, d_hidden, 3, key=in_key).reshape(d_in, 3, num_blocks, size)
        self.weight_ih = jnp.swapaxes(inputs, 1, 2).reshape(d_in, 3 * d_hidden)
        keys = jax.random.split(hidden_key, num_blocks) if num_blocks > 1 else hidden_key[None]
        self.weight_hh = jax.vmap(lambda k: gate_weights(size, size, 3, key=k))(keys)
        self.bias, self.bias_n = jnp.zeros(3 * d_hidden), jnp.zeros(d_hidden)

    def initial_carry(self) -> Float[Array, " H"]:
        """Zeros."""
        return no_memory(self.bias_n.size, self.bias_n)

    def __call__(self, x: Input, carry: PyTree) -> tuple[Float[Array, " H"], Float[Array, " H"]]:
        self.check_step(x, carry)
        h, _ = cell(x @ self.weight_ih, self.weight_hh, self.bias, self.bias_n, carry)
        return h, h

    def carries(self, xs: Float[Array, "T N D"], carry: Float[Array, "N H"], is_first: Bool[Array, "T N"] | None) -> Float[Array, "T N H"]:
        """The memories after each step."""
        return run(self.weight_hh, self.bias, self.bias_n, project(xs, self.weight_ih), carry, is_first)
