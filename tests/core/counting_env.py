"""Environments whose observation says (env, episode, t), so that every transition can be recognised."""

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from rl4jax.core.env import AbstractEnv, Step

LENGTHS = (3, 1, 4, 2)  # of the episodes of environment 0, 1, 2, ...; odd environments truncate, even ones terminate


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


class HostCounting(gymnasium.Env):
    """Observation (env, episode, t) in one array that is written in place for ever; reward t."""

    observation_space = gymnasium.spaces.Box(-1, 1e6, (3,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, index):
        self.index = index
        self.obs = np.array([index, -1.0, 0.0])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.obs[1] += 1
        self.obs[2] = 0
        return self.obs, {}

    def step(self, action):
        self.obs[2] += 1
        end = bool(self.obs[2] >= LENGTHS[self.index])
        return self.obs, float(self.obs[2]), end and self.index % 2 == 0, end and self.index % 2 == 1, {}


def expected_transitions(index, num_episodes):
    """(obs, next_obs, reward, terminated, truncated) of the first episodes of one environment, in order."""
    length = LENGTHS[index]
    return [
        ((index, episode, t), (index, episode, t + 1), t + 1, t + 1 == length and index % 2 == 0, t + 1 == length and index % 2 == 1)
        for episode in range(num_episodes)
        for t in range(length)
    ]
