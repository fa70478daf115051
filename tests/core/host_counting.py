"""Gymnasium environments whose observation says (env, episode, t). No JAX here: spawned workers import this file."""

import os

import gymnasium
import numpy as np

LENGTHS = (3, 1, 4, 2)  # of the episodes of environment 0, 1, 2, ...; odd environments truncate, even ones terminate


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


class KeepsItsArrays(HostCounting):
    def step(self, action):
        obs, *rest = super().step(action)
        return obs.copy(), *rest

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        return obs.copy(), info


class Dies(HostCounting):
    """The process ends at action 1."""

    def __init__(self):
        super().__init__(0)

    def step(self, action):
        if action == 1:
            os._exit(3)
        return super().step(action)


class Raises(Dies):
    """It has a bug at action 1."""

    def step(self, action):
        if action == 1:
            raise ValueError("a bug")
        return super().step(action)


def expected_transitions(index, num_episodes):
    """(obs, next_obs, reward, terminated, truncated) of the first episodes of one environment, in order."""
    length = LENGTHS[index]
    return [
        ((index, episode, t), (index, episode, t + 1), t + 1, t + 1 == length and index % 2 == 0, t + 1 == length and index % 2 == 1)
        for episode in range(num_episodes)
        for t in range(length)
    ]
