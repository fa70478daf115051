"""What all wrappers share: whatever they do not change comes from the environment inside."""

import equinox as eqx
import gymnasium
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree, UInt8

from ..contract import check_is_env
from ..env import AbstractEnv, EnvState, Step


class AbstractWrapper(AbstractEnv):
    """An environment around another. A wrapper with a state of its own keeps the inner one in a field `env` and overrides `inner`."""

    env: AbstractEnv

    def __check_init__(self):
        check_is_env(self.env)

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

    def step(self, state: EnvState, action: PyTree, key: PRNGKeyArray) -> tuple[EnvState, Step]:
        return self.env.step(state, action, key)

    def action_mask(self, state: EnvState) -> Bool[Array, " A"] | None:
        return self.env.action_mask(self.inner(state))

    def carry_over(self, last: EnvState, start: EnvState) -> EnvState:
        inner = self.env.carry_over(self.inner(last), self.inner(start))
        return inner if self.inner(start) is start else eqx.tree_at(lambda state: state.env, start, inner)

    def privileged(self, state: EnvState) -> PyTree:
        return self.env.privileged(self.inner(state))

    def render(self, state: EnvState) -> UInt8[np.ndarray, "H W 3"]:
        return self.env.render(self.inner(state))
