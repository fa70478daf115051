"""Orthogonal initialisation (Saxe et al. 2014): what PPO's networks start from."""

import math
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from rl4jax.core.errors import is_count, require

# Gains by role, after Huang et al. 2022, "The 37 implementation details of PPO": a policy that begins almost uniform, values near zero.
HIDDEN_GAIN, POLICY_GAIN, VALUE_GAIN = math.sqrt(2.0), 0.01, 1.0

Layer = TypeVar("Layer", bound=eqx.nn.Linear | eqx.nn.Conv2d)


def orthogonal(layer: Layer, gain: float = HIDDEN_GAIN, *, key: PRNGKeyArray) -> Layer:
    """The layer with weights `gain * Q`, whose rows (or columns, whichever are fewer) are orthonormal, and with zero biases.

    A convolution counts as the matrix of its output channels against everything else.
    """
    init = jax.nn.initializers.orthogonal(gain, column_axis=0)
    layer = eqx.tree_at(lambda x: x.weight, layer, init(key, layer.weight.shape, layer.weight.dtype))
    if layer.bias is None:
        return layer
    return eqx.tree_at(lambda x: x.bias, layer, jnp.zeros_like(layer.bias))


def orthogonal_linear(d_in: int, d_out: int, gain: float = HIDDEN_GAIN, *, key: PRNGKeyArray) -> eqx.nn.Linear:
    """A linear layer with orthogonal weights and zero bias.

    >>> layer = orthogonal_linear(3, 2, gain=1.0, key=jax.random.key(0))
    >>> bool(jnp.allclose(layer.weight @ layer.weight.T, jnp.eye(2), atol=1e-5))
    True
    """
    require(is_count(d_in), "orthogonal_linear: d_in", d_in, "a positive integer")
    require(is_count(d_out), "orthogonal_linear: d_out", d_out, "a positive integer")
    empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(lambda: eqx.nn.Linear(d_in, d_out, key=jax.random.key(0))))
    return orthogonal(empty, gain, key=key)
