"""Weights from a normal distribution without its tails: what DreamerV3's networks start from."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rl4jax.core.errors import is_count, require

from .linear import Linear
from .mlp import MLP

CUT_AT = 2.0  # standard deviations
_STD_LEFT = 0.87962566  # of a normal distribution of deviation 1 that was cut there


def truncated_weights(key: PRNGKeyArray, shape: tuple[int, ...], fan_in: int, gain: float = 1.0) -> Float[Array, "..."]:
    """Numbers of standard deviation `gain / sqrt(fan_in)`, none beyond two of those of the uncut distribution."""
    return jax.random.truncated_normal(key, -CUT_AT, CUT_AT, shape) * (gain / _STD_LEFT / math.sqrt(fan_in))


def truncated_linear(d_in: int, d_out: int, gain: float = 1.0, *, key: PRNGKeyArray) -> Linear:
    """A linear layer with such weights and zero bias. With a gain of 0 it begins as zero."""
    require(is_count(d_in), "truncated_linear: d_in", d_in, "a positive integer")
    require(is_count(d_out), "truncated_linear: d_out", d_out, "a positive integer")
    return Linear(truncated_weights(key, (d_in, d_out), d_in, gain), jnp.zeros(d_out))


def dense(d_in: int, *hidden: int, key: PRNGKeyArray) -> MLP:
    """Layers as DreamerV3 has them everywhere: linear, normalised by root mean square, SiLU."""
    return MLP(d_in, hidden, "silu", "rms", truncated_linear, key=key)
