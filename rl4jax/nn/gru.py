"""Gated recurrent unit (Cho et al. 2014), in PyTorch's form, and the arithmetic that it shares with `BlockGRU`."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from .recurrent import AbstractCore, Input, before_each, check_sizes, gate_weights, no_memory, project, unless_first


class GRU(AbstractCore):
    """Carry `h`, which is the features. Gates r, z, n as in PyTorch, orthogonal weights `[in, out]`, zero biases.

    `n = tanh(x_n + r * (h_n + bias_n))`, `h' = (1 - z) * n + z * h`: the reset gate acts behind the matrix.
    """

    weight_ih: Float[Array, "D G"]
    weight_hh: Float[Array, "H G"]
    bias: Float[Array, " G"]
    bias_n: Float[Array, " H"]

    def __init__(self, d_in: int, d_hidden: int, *, key: PRNGKeyArray):
        check_sizes("GRU", d_in, d_hidden)
        _, in_key, hidden_key = jax.random.split(key, 3)
        self.weight_ih = gate_weights(d_in, d_hidden, 3, key=in_key)
        self.weight_hh = gate_weights(d_hidden, d_hidden, 3, key=hidden_key)
        self.bias, self.bias_n = jnp.zeros(3 * d_hidden), jnp.zeros(d_hidden)

    def initial_carry(self) -> Float[Array, " H"]:
        """Zeros."""
        return no_memory(len(self.weight_hh), self.weight_hh)

    def __call__(self, x: Input, carry: PyTree) -> tuple[Float[Array, " H"], Float[Array, " H"]]:
        self.check_step(x, carry)
        h, _ = cell(x @ self.weight_ih, self.weight_hh[None], self.bias, self.bias_n, carry)
        return h, h

    def carries(self, xs: Float[Array, "T N D"], carry: Float[Array, "N H"], is_first: Bool[Array, "T N"] | None) -> Float[Array, "T N H"]:
        """The memories after each step."""
        return run(self.weight_hh[None], self.bias, self.bias_n, project(xs, self.weight_ih), carry, is_first)


# The gates of a block lie side by side: `[..., K, 3, I]` for K blocks of I units. One block is a plain GRU.


def cell(
    z: Float[Array, "*N G"], weight: Float[Array, "K I O"], bias: Float[Array, " G"], bias_n: Float[Array, " H"], h: Float[Array, "*N H"]
) -> tuple[Float[Array, "*N H"], tuple]:
    """The next memory, and its derivatives by what comes from h, by `x_n`, and by h itself."""
    num_blocks, size = weight.shape[:2]
    in_blocks = (*h.shape[:-1], num_blocks, size)
    h, bias_n = h.reshape(in_blocks), bias_n.reshape(num_blocks, size)
    of_x, of_h = (z + bias).reshape(*in_blocks[:-1], 3, size), by_blocks(h, weight).reshape(*in_blocks[:-1], 3, size)
    gates = 0.5 + 0.5 * jnp.tanh(0.5 * (of_x[..., :2, :] + of_h[..., :2, :]))  # the sigmoids of both, by one tanh, which XLA vectorises
    r, z = gates[..., 0, :], gates[..., 1, :]
    h_n = of_h[..., 2, :] + bias_n
    n = jnp.tanh(of_x[..., 2, :] + r * h_n)
    by_n = (1 - z) * (1 - n * n)
    by_gate = jnp.stack([by_n * h_n * r * (1 - r), (h - n) * z * (1 - z), by_n * r], -2)
    batch = h.shape[:-2]
    flat = lambda x: x.reshape(*batch, math.prod(x.shape[len(batch) :]))  # noqa: E731
    return flat(n + z * (h - n)), (flat(by_gate), flat(by_n), flat(z))


def by_blocks(h: Float[Array, "*N K I"], weight: Float[Array, "K I O"]) -> Float[Array, "*N K O"]:
    """Each block by its own matrix."""
    return (h[..., 0, :] @ weight[0])[..., None, :] if len(weight) == 1 else jnp.einsum("...ki,kio->...ko", h, weight)


# Backpropagation by hand, as in `lstm.py`, which says why.


@jax.custom_vjp
def run(
    weight: Float[Array, "K I O"],
    bias: Float[Array, " G"],
    bias_n: Float[Array, " H"],
    z: Float[Array, "T N G"],
    carry: Float[Array, "N H"],
    is_first: Bool[Array, "T N"] | None,
) -> Float[Array, "T N H"]:
    """The memories after each step."""
    return _forward(weight, bias, bias_n, z, carry, is_first)[0]


def _forward(weight, bias, bias_n, z, carry, is_first):
    def one(h, now):
        z, first = now
        h, derivatives = cell(z, weight, bias, bias_n, unless_first(first, h))
        return h, (h, derivatives)

    after, derivatives = jax.lax.scan(one, carry, (z, is_first))[1]
    return after, (weight, carry, after, derivatives, is_first)


def _backward(saved, d_after):
    weight, start, after, derivatives, is_first = saved
    num_blocks, size, _ = weight.shape
    back_weight = weight.mT

    def one(later, now):
        dh, (by_gate, by_n, by_h), first = now
        dh = dh + later
        blocks = dh.reshape(-1, num_blocks, 1, size)
        d_gates = by_gate.reshape(-1, num_blocks, 3, size) * blocks
        through = by_blocks(d_gates.reshape(-1, num_blocks, 3 * size), back_weight).reshape(dh.shape)
        return unless_first(first, dh * by_h + through), (d_gates.reshape(by_gate.shape), dh * by_n)

    d_carry, (d_gates, d_n) = jax.lax.scan(one, jnp.zeros_like(start), (d_after, derivatives, is_first), reverse=True)
    before = before_each(start, after, is_first).reshape(-1, num_blocks, size)
    d_of_h = d_gates.reshape(-1, num_blocks, 3 * size)
    d_weight = (before[:, 0].T @ d_of_h[:, 0])[None] if num_blocks == 1 else jnp.einsum("nki,nko->kio", before, d_of_h)
    d_gates = d_gates.reshape(*d_n.shape[:-1], num_blocks, 3, size)
    d_z = d_gates.at[..., 2, :].set(d_n.reshape(*d_n.shape[:-1], num_blocks, size)).reshape(*d_n.shape[:-1], -1)
    d_weight, d_bias, d_bias_n = (x.astype(weight.dtype) for x in (d_weight, d_z.sum((0, 1)), d_gates[..., 2, :].sum((0, 1)).ravel()))
    return d_weight, d_bias, d_bias_n, d_z, d_carry, None


run.defvjp(_forward, _backward)
