"""What all wrappers share: whatever they do not change comes from the environment inside."""

import gymnasium
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree, UInt8

from ..env import AbstractEnv, EnvState


class AbstractWrapper(AbstractEnv):
    """An environment around another. A wrapper with a state of its own overrides `inner` to unpack it."""

    env: AbstractEnv

    def inner(self, state: EnvState) -> EnvState:
        """The state of the environment inside."""
        return state

    @property
    def observation_space(self) -> gymnasium.Space:
        return self.env.observation_space

    @property
    def action_space(self) -> gymnasium.Space:
        return self.env.action_space

    def reset(self, key: PRNGKeyArray) -> tuple[EnvState, PyTree]:
        return self.env.reset(key)

    def action_mask(self, state: EnvState) -> Bool[Array, " A"] | None:
        return self.env.action_mask(self.inner(state))

    def privileged(self, state: EnvState) -> PyTree:
        return self.env.privileged(self.inner(state))

    def render(self, state: EnvState) -> UInt8[np.ndarray, "H W 3"]:
        return self.env.render(self.inner(state))
