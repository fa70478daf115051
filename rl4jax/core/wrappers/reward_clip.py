"""Keep rewards small."""

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray, PyTree

from ..env import AbstractEnv, EnvState, Step
from ..errors import require
from .wrapper import AbstractWrapper


class RewardClip(AbstractWrapper):
    """Clip rewards to `[-limit, limit]`."""

    env: AbstractEnv
    limit: float = 1.0

    def __check_init__(self):
        if isinstance(self.limit, int | float):
            require(self.limit > 0, "RewardClip.limit", self.limit, "a positive number")

    def step(self, state: EnvState, action: PyTree, key: PRNGKeyArray) -> tuple[EnvState, Step]:
        state, step = self.env.step(state, action, key)
        reward = jnp.clip(step.reward, -self.limit, self.limit)
        return state, step._replace(reward=reward)
