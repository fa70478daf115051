"""Return and length of the running episode and of the last finished one."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from ..env import EnvState, Step
from .wrapper import AbstractWrapper


class EpisodeStatsState(eqx.Module):
    """The running sums, and those of the last episode that ended: its length is 0 until one has."""

    env: EnvState
    episode_return: Float[Array, ""]
    episode_length: Int[Array, ""]
    last_return: Float[Array, ""]
    last_length: Int[Array, ""]


class EpisodeStats(AbstractWrapper):
    """Count the rewards and steps of the running episode in the state, and keep those of the last one.

    After the last step of an episode, `episode_return` and `episode_length` are the whole episode's. Under a `VecEnv` the next
    episode begins in that same step, and they are found in `state.env.last_return` and `state.env.last_length`, one per environment.
    """

    def inner(self, state: EpisodeStatsState) -> EnvState:
        return state.env

    def reset(self, key: PRNGKeyArray) -> tuple[EpisodeStatsState, PyTree]:
        state, obs = self.env.reset(key)
        zero, none = jnp.zeros(()), jnp.zeros((), jnp.int32)
        return EpisodeStatsState(state, zero, none, zero, none), obs

    def step(self, state: EpisodeStatsState, action: PyTree, key: PRNGKeyArray) -> tuple[EpisodeStatsState, Step]:
        inner, step = self.env.step(state.env, action, key)
        sums = (state.episode_return + step.reward, state.episode_length + 1)
        return EpisodeStatsState(inner, *sums, state.last_return, state.last_length), step

    def carry_over(self, last: EpisodeStatsState, start: EpisodeStatsState) -> EpisodeStatsState:
        # Here, and not in `step`, an episode is known to be over, also if a wrapper outside ended it.
        inner = self.env.carry_over(last.env, start.env)
        return EpisodeStatsState(inner, start.episode_return, start.episode_length, last.episode_return, last.episode_length)
