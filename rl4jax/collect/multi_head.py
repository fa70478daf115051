"""Advantages of a value function with one head for each part of the reward (Ye et al. 2020)."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from rl4jax.core.errors import ConfigError, ShapeError, is_count, require
from rl4jax.core.number import Number, is_concrete

from .returns import check_shapes, gae

PerHead = Number | Sequence[float | int] | np.ndarray  # one for each head, or one number for all


class MultiHead(eqx.Module):
    """Discount, lambda and weight of each head. Weights are scaled to sum to 1; without any, all heads weigh the same.

    >>> MultiHead(2, gamma=[0.9, 0.99], weight=[1, 3]).weight.tolist()
    [0.25, 0.75]
    """

    gamma: Float[Array, " H"]
    gae_lambda: Float[Array, " H"]
    weight: Float[Array, " H"]
    num_heads: int = eqx.field(static=True)

    def __init__(self, num_heads: int, gamma: PerHead = 0.99, gae_lambda: PerHead = 0.95, weight: PerHead = 1.0):
        require(is_count(num_heads), "MultiHead.num_heads", num_heads, "a positive integer")
        self.num_heads = num_heads
        self.gamma = _per_head(num_heads, "gamma", gamma, lambda x: (x >= 0) & (x <= 1), "in [0, 1]")
        self.gae_lambda = _per_head(num_heads, "gae_lambda", gae_lambda, lambda x: (x >= 0) & (x <= 1), "in [0, 1]")
        weight = _per_head(num_heads, "weight", weight, lambda x: (x >= 0) & (x.sum() > 0), "zero or more, and not all zero")
        self.weight = weight / weight.sum()


def _per_head(num_heads: int, name: str, given: PerHead, ok, rule: str) -> Float[Array, " H"]:
    if np.shape(given) not in ((), (num_heads,)):
        raise ConfigError(f"MultiHead.{name} has shape {np.shape(given)}; give one number, or one for each of the {num_heads} heads.")
    if is_concrete(given):
        number = np.asarray(given, np.float32)
        require(bool((np.isfinite(number) & ok(number)).all()), f"MultiHead.{name}", given, rule)
    return jnp.broadcast_to(jnp.asarray(given, jnp.float32), (num_heads,))


class MultiHeadAdvantage(NamedTuple):
    """What `multi_head_gae` says: constants, through which no gradient passes."""

    advantage: Float[Array, "T *B"]  # of the policy: the weighted sum over heads
    target: Float[Array, "T *B H"]  # of the value, head by head


def multi_head_gae(
    reward: Float[Array, "T *B H"],
    value: Float[Array, "T *B H"],
    next_value: Float[Array, "T *B H"],
    terminated: Bool[Array, "T *B"],
    truncated: Bool[Array, "T *B"],
    cfg: MultiHead,
) -> MultiHeadAdvantage:
    """GAE of each head with its own gamma and lambda, and the advantages summed by weight: `sum_h weight_h * advantage_h`."""
    if jnp.ndim(reward) < 2 or jnp.shape(reward)[-1] != cfg.num_heads:
        raise ShapeError(
            f"multi_head_gae: reward has shape {jnp.shape(reward)}; its first axis must be time and its last the heads, of which cfg has "
            f"{cfg.num_heads}."
        )
    check_shapes("multi_head_gae", reward, value=value, next_value=next_value)
    for name, x in {"terminated": terminated, "truncated": truncated}.items():
        if jnp.shape(x) != jnp.shape(reward)[:-1]:
            raise ShapeError(
                f"multi_head_gae: {name} has shape {jnp.shape(x)}; it must be that of reward without the heads, {jnp.shape(reward)[:-1]}."
            )
    terminated, ended = terminated[..., None], (terminated | truncated)[..., None]
    discount = jnp.broadcast_to(jnp.where(terminated, 0.0, cfg.gamma), jnp.shape(reward))
    trace = jnp.broadcast_to(jnp.where(ended, 0.0, cfg.gae_lambda), jnp.shape(reward))
    advantage = gae(reward, value, next_value, discount, trace)
    return MultiHeadAdvantage(*jax.lax.stop_gradient((advantage @ cfg.weight, advantage + value)))
