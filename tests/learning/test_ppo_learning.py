"""What PPO reaches with the presets of the command line: greedy evaluation of the last weights over 100 episodes, several seeds."""

import dataclasses
import itertools

import numpy as np
import pytest

import rl4jax as rl
from rl4jax import ppo
from rl4jax.cli.presets import PPO
from tests.learning.presets_reach import budget, evaluations

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.mark.parametrize(
    ("env", "steps", "seeds", "bar"),
    [
        ("CartPole", 200_000, 10, 475),
        ("MountainCarContinuous", 200_000, 5, 92),
        ("CartPoleNoVel", 500_000, 3, 450),
        ("Catch,rows=16,columns=16", 100_000, 3, 0.9),
        ("gym:LunarLander-v3", 1_000_000, 3, 200),
    ],
)
def test_every_seed_reaches(env, steps, seeds, bar, tmp_path):
    assert budget("ppo", env) <= steps
    means = evaluations("ppo", env, seeds, tmp_path)
    assert (means >= bar).all(), means


def test_acrobot(tmp_path):
    assert budget("ppo", "Acrobot") <= 500_000
    means = evaluations("ppo", "Acrobot", 5, tmp_path)
    assert (means >= -90).all(), means
    assert means.mean() >= -85, means


def test_pendulum(tmp_path):
    assert budget("ppo", "Pendulum") <= 200_000
    means = evaluations("ppo", "Pendulum", 5, tmp_path)
    assert (means >= -220).all(), means
    assert means.mean() >= -185, means


def test_grid_world_is_walked_almost_optimally(tmp_path):
    assert budget("ppo", "GridWorld") <= 200_000
    env = rl.envs.GridWorld()
    cells = [c for c in itertools.product(range(env.size), repeat=2) if c != (env.size - 1, env.size - 1)]
    steps = np.array([2 * (env.size - 1) - row - column for row, column in cells])
    best = np.mean(env.goal_reward + env.step_reward * (steps - 1))
    means = evaluations("ppo", "GridWorld", 3, tmp_path)
    assert (means >= 0.95 * best).all(), (means, best)


def test_multi_discrete_nav_is_walked_almost_optimally(tmp_path):
    assert budget("ppo", "MultiDiscreteNav") <= 300_000
    env = rl.envs.MultiDiscreteNav()
    cells = list(itertools.product(range(env.size), repeat=2))
    steps = np.array([max(abs(a[0] - b[0]), abs(a[1] - b[1])) for a in cells for b in cells if a != b])  # a king's
    best = np.mean(env.goal_reward + env.step_reward * (steps - 1))
    means = evaluations("ppo", "MultiDiscreteNav", 3, tmp_path)
    assert (means >= 0.95 * best).all(), (means, best)


def test_memory_needs_a_memory(tmp_path):
    assert budget("ppo", "Memory") <= 1_000_000
    recalls = rl.envs.Memory().max_steps - rl.envs.Memory().delay
    means = evaluations("ppo", "Memory", 3, tmp_path)
    assert (means / recalls >= 0.95).all(), means
    without = evaluations("ppo", "Memory", 3, tmp_path / "feed-forward", core="none")
    assert (without / recalls < 0.35).all(), "chance is 0.25"


def test_presets_change_only_what_they_may():
    allowed = {field.name for field in dataclasses.fields(ppo.Config)}
    allowed |= {"total_steps", "num_envs", "hidden", "activation", "shared", "core", "log_std", "squash"}
    assert all(set(preset) <= allowed for preset in PPO.values())
