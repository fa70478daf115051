"""An in-graph environment whose observation says (episode, t), so that every transition can be recognised."""

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from rl4jax.core.env import AbstractEnv, Step


class CountingState(eqx.Module):
    episode: jax.Array  # drawn by reset: an in-graph environment cannot count its resets
    t: jax.Array


class InGraphCounting(AbstractEnv):
    """Episodes named by a random number, each `2 + name % 3` long; those with an even name terminate, the others truncate."""

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(0, 2**31 - 1, (2,), np.int32)

    @property
    def action_space(self):
        return gymnasium.spaces.Discrete(2)

    def reset(self, key):
        state = CountingState(jax.random.randint(key, (), 0, 2**30), jnp.int32(0))
        return state, jnp.stack([state.episode, state.t])

    def step(self, state, action, key):
        state = CountingState(state.episode, state.t + 1)
        end = state.t >= 2 + state.episode % 3
        even = state.episode % 2 == 0
        return state, Step(jnp.stack([state.episode, state.t]), state.t.astype(jnp.float32), end & even, end & ~even)
