"""Orthogonal initialisation (Saxe et al. 2014): what PPO's networks start from."""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from rl4jax.core.errors import is_count, require
from rl4jax.core.number import Number

from .linear import Linear

# Gains by role, after Huang et al. 2022, "The 37 implementation details of PPO": a policy that begins almost uniform, values near zero.
HIDDEN_GAIN, POLICY_GAIN, VALUE_GAIN = math.sqrt(2.0), 0.01, 1.0


@functools.partial(jax.jit, static_argnames=("shape", "column_axis"))
def orthogonal_weights(key: PRNGKeyArray, shape: tuple[int, ...], gain: Number, column_axis: int) -> Array:
    """`gain * Q` with orthonormal rows or columns, whichever are fewer; as one program, since operation by operation it takes seconds."""
    return jax.nn.initializers.orthogonal(gain, column_axis)(key, shape)


def orthogonal_conv(conv: eqx.nn.Conv2d, gain: float = HIDDEN_GAIN, *, key: PRNGKeyArray) -> eqx.nn.Conv2d:
    """The convolution with orthogonal weights, of its output channels against everything else, and zero bias."""
    weight = orthogonal_weights(key, conv.weight.shape, gain, column_axis=0)
    return eqx.tree_at(lambda x: (x.weight, x.bias), conv, (weight, None if conv.bias is None else jnp.zeros_like(conv.bias)))


def orthogonal_linear(d_in: int, d_out: int, gain: float = HIDDEN_GAIN, *, key: PRNGKeyArray) -> Linear:
    """A linear layer with orthogonal weights, `gain * Q`, and zero bias.

    >>> layer = orthogonal_linear(3, 2, gain=1.0, key=jax.random.key(0))
    >>> bool(jnp.allclose(layer.weight.T @ layer.weight, jnp.eye(2), atol=1e-5))
    True
    """
    require(is_count(d_in), "orthogonal_linear: d_in", d_in, "a positive integer")
    require(is_count(d_out), "orthogonal_linear: d_out", d_out, "a positive integer")
    return Linear(orthogonal_weights(key, (d_in, d_out), gain, column_axis=-1), jnp.zeros(d_out))
