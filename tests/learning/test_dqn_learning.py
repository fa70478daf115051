"""What DQN reaches with the presets of the command line: greedy evaluation of the last weights over 100 episodes, several seeds."""

import dataclasses

import pytest

from rl4jax import dqn
from rl4jax.cli.presets import DQN
from tests.learning.presets_reach import budget, evaluations

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.mark.parametrize(
    ("env", "steps", "seeds", "bar", "needed"),
    [("CartPole", 200_000, 5, 450, 5), ("MountainCar", 150_000, 5, -115, 4), ("Acrobot", 150_000, 5, -90, 5)],
)
def test_seeds_reach(env, steps, seeds, bar, needed, tmp_path):
    assert budget("dqn", env) <= steps
    means = evaluations("dqn", env, seeds, tmp_path)
    assert (means >= bar).sum() >= needed, means


def test_presets_change_only_what_they_may():
    allowed = {field.name for field in dataclasses.fields(dqn.Config)} | {
        "total_steps",
        "num_envs",
        "hidden",
        "activation",
        "norm",
        "dueling",
    }
    assert all(set(preset) <= allowed for preset in DQN.values())
