"""Recurrent cores: one step of memory, `core(x, carry) -> (features, carry)`."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from .orthogonal import orthogonal_weights


class LSTM(eqx.Module):
    """Long short-term memory (Hochreiter and Schmidhuber 1997); carry `(h, c)`. Orthogonal weights, zero biases."""

    cell: eqx.nn.LSTMCell

    def __init__(self, d_in: int, d_hidden: int, *, key: PRNGKeyArray):
        self.cell = _orthogonal_cell(eqx.nn.LSTMCell, d_in, d_hidden, key=key)

    def initial_carry(self) -> tuple[Float[Array, " H"], Float[Array, " H"]]:
        """Zeros."""
        zero = jnp.zeros(self.cell.hidden_size)
        return zero, zero

    def __call__(self, x: Float[Array, " D"], carry: PyTree) -> tuple[Float[Array, " H"], PyTree]:
        h, c = self.cell(x, carry)
        return h, (h, c)


class GRU(eqx.Module):
    """Gated recurrent unit (Cho et al. 2014), in PyTorch's form; carry `h`. Orthogonal weights, zero biases."""

    cell: eqx.nn.GRUCell

    def __init__(self, d_in: int, d_hidden: int, *, key: PRNGKeyArray):
        self.cell = _orthogonal_cell(eqx.nn.GRUCell, d_in, d_hidden, key=key)

    def initial_carry(self) -> Float[Array, " H"]:
        """Zeros."""
        return jnp.zeros(self.cell.hidden_size)

    def __call__(self, x: Float[Array, " D"], carry: PyTree) -> tuple[Float[Array, " H"], PyTree]:
        h = self.cell(x, carry)
        return h, h


def _orthogonal_cell(cell_class, d_in: int, d_hidden: int, *, key: PRNGKeyArray):
    """An Equinox cell whose every gate has orthogonal weights."""
    make_key, in_key, hidden_key = jax.random.split(key, 3)
    cell = cell_class(d_in, d_hidden, key=make_key)
    gates = cell.weight_hh.shape[0] // d_hidden
    init = jax.vmap(lambda k, d: orthogonal_weights(k, (d_hidden, d), 1.0, column_axis=0), in_axes=(0, None))
    weights = [init(jax.random.split(k, gates), d).reshape(-1, d) for k, d in ((in_key, d_in), (hidden_key, d_hidden))]
    cell = eqx.tree_at(lambda x: (x.weight_ih, x.weight_hh), cell, tuple(weights))
    return jax.tree.map(lambda x: jnp.zeros_like(x) if x.ndim == 1 else x, cell)
