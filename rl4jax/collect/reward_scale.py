"""Rewards brought to a common size."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rl4jax.core.number import Number
from rl4jax.core.running_stats import RunningStats

from .rollout import Rollout

CLIP = 10.0


class RewardScale(NamedTuple):
    """Divides rewards by the standard deviation of the discounted returns seen so far. Their mean is left alone: it carries the sign."""

    stats: RunningStats
    discounted_return: Float[Array, " B"]  # so far, of the episodes that go on

    @classmethod
    def of(cls, num_envs: int) -> "RewardScale":
        """No data yet."""
        return cls(RunningStats.like(jnp.zeros(())), jnp.zeros(num_envs))

    def apply(self, rollout: Rollout, gamma: Number) -> tuple[Float[Array, "T B"], "RewardScale"]:
        """The scaled rewards of a rollout, clipped to [-10, 10], and the scale with this rollout taken in."""

        def forward(so_far, now):
            reward, ended, valid = now
            total = so_far * gamma + reward
            return jnp.where(ended | ~valid, 0.0, total), total

        steps = (rollout.reward, rollout.ended, rollout.valid)
        discounted_return, returns = jax.lax.scan(forward, self.discounted_return, steps, unroll=8)
        stats = self.stats.update(returns, rollout.valid)
        return jnp.clip(rollout.reward / jnp.sqrt(stats.var + 1e-8), -CLIP, CLIP), RewardScale(stats, discounted_return)
