"""Return and length of the running episode and of the last finished one."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray, PyTree

from ..env import EnvState, Step
from .wrapper import AbstractWrapper


class EpisodeStatsState(eqx.Module):
    """The running sums. After a step that ended the episode they are that episode's return and length."""

    env: EnvState
    episode_return: Float[Array, ""]
    episode_length: Int[Array, ""]


class EpisodeStats(AbstractWrapper):
    """Count the rewards and steps of the running episode in the state.

    The state after the last step of an episode holds its full return and length; a reset starts again at zero.
    """

    def inner(self, state: EpisodeStatsState) -> EnvState:
        return state.env

    def reset(self, key: PRNGKeyArray) -> tuple[EpisodeStatsState, PyTree]:
        state, obs = self.env.reset(key)
        return EpisodeStatsState(state, jnp.zeros(()), jnp.zeros((), jnp.int32)), obs

    def step(self, state: EpisodeStatsState, action: ArrayLike, key: PRNGKeyArray) -> tuple[EpisodeStatsState, Step]:
        inner, step = self.env.step(state.env, action, key)
        return EpisodeStatsState(inner, state.episode_return + step.reward, state.episode_length + 1), step
