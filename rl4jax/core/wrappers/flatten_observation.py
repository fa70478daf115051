"""One vector out of any observation."""

from typing import Any

import equinox as eqx
import gymnasium
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from ..env import AbstractEnv, EnvState, Step
from ..spaces import StaticSpace, flatten
from .wrapper import AbstractWrapper


class FlattenObservation(AbstractWrapper):
    """Turn Dict, Tuple, image and discrete observations into one float32 vector, as `gymnasium.spaces.flatten` does."""

    env: AbstractEnv
    _space: StaticSpace = eqx.field(static=True, repr=False)  # the inner one, readable inside jit

    def __init__(self, env: AbstractEnv):
        self.env = env
        self._space = StaticSpace(env.observation_space)

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        flat: Any = gymnasium.spaces.flatten_space(self._space.space)
        return gymnasium.spaces.Box(flat.low.astype(np.float32), flat.high.astype(np.float32))

    def reset(self, key: PRNGKeyArray) -> tuple[EnvState, PyTree]:
        state, obs = self.env.reset(key)
        return state, flatten(self._space.space, obs)

    def step(self, state: EnvState, action: PyTree, key: PRNGKeyArray) -> tuple[EnvState, Step]:
        state, step = self.env.step(state, action, key)
        return state, step._replace(obs=flatten(self._space.space, step.obs))
