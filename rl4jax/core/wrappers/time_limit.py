"""Stop watching after a number of steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from ..env import AbstractEnv, EnvState, Step
from ..errors import is_count, require
from .wrapper import AbstractWrapper


class TimeLimitState(eqx.Module):
    env: EnvState
    t: Int[Array, ""]


class TimeLimit(AbstractWrapper):
    """Truncate (never terminate) an episode at `max_steps`."""

    env: AbstractEnv
    max_steps: int

    def __check_init__(self):
        if not isinstance(self.max_steps, jax.Array):  # which may be traced
            require(is_count(self.max_steps), "TimeLimit.max_steps", self.max_steps, "a positive integer")

    def inner(self, state: TimeLimitState) -> EnvState:
        return state.env

    def reset(self, key: PRNGKeyArray) -> tuple[TimeLimitState, PyTree]:
        state, obs = self.env.reset(key)
        return TimeLimitState(state, jnp.zeros((), jnp.int32)), obs

    def step(self, state: TimeLimitState, action: PyTree, key: PRNGKeyArray) -> tuple[TimeLimitState, Step]:
        inner, step = self.env.step(state.env, action, key)
        t = state.t + 1
        truncated = step.truncated | (t >= self.max_steps)
        return TimeLimitState(inner, t), step._replace(truncated=truncated)
