"""What Dreamer reaches with the presets of the command line, and after how many steps PPO does: greedy evaluation over 100 episodes."""

import dataclasses
import functools

import jax
import pytest

from rl4jax import dreamer
from rl4jax.cli.presets import DREAMER
from tests.learning.presets_reach import budget, curve, prepared

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * 3600)]

SEEDS = range(3)
CATCH = "Catch,rows=16,columns=16"
BARS = {CATCH: 0.9, "Memory": 0.95 * 17, "Pendulum": -250.0, "CartPole": 400.0}
BUDGETS = {CATCH: 20_000, "Memory": 50_000, "Pendulum": 30_000, "CartPole": 50_000}
PROTOTYPES = functools.partial(dreamer.Prototypes, shift=1, frozen_for=500)


@pytest.mark.parametrize("env", ["Memory", "Pendulum", CATCH])
def test_every_seed_reaches_in_a_third_of_the_steps_of_ppo(env, tmp_path):
    assert budget("dreamer", env) <= BUDGETS[env]
    needed = []
    for seed in SEEDS:
        steps, means = curve(prepared("dreamer", env, seed, tmp_path), 1_000)
        assert means[-1] >= BARS[env], (seed, means)
        needed.append(steps[means >= BARS[env]][0])
    assert min(steps_of_ppo(env, seed, tmp_path / "ppo") for seed in SEEDS) >= 3 * max(needed), needed


def steps_of_ppo(env, seed, path):
    """Until it is as good; its whole budget if it never is."""
    steps, _ = curve(prepared("ppo", env, seed, path), 1_000, until=BARS[env])
    return steps[-1]


def test_cart_pole_is_reached_and_kept(tmp_path):
    assert budget("dreamer", "CartPole") <= BUDGETS["CartPole"]
    for seed in SEEDS:
        steps, means = curve(prepared("dreamer", "CartPole", seed, tmp_path), 1_000)
        assert (means[steps >= 0.9 * steps[-1]] >= 400).all(), (seed, means)


@pytest.mark.parametrize(("representation", "most"), [("barlow", 20_000), ("infonce", 40_000), (PROTOTYPES, 40_000)])
def test_every_seed_catches_without_a_decoder(representation, most, tmp_path):
    for seed in SEEDS:
        run = prepared("dreamer", CATCH, seed, tmp_path, total_steps=most)
        agent = dreamer.Agent(run.env, run.network.size, representation, key=jax.random.key(seed))
        state = dreamer.init(agent, run.env, run.cfg, key=run.key("init"))
        _, means = curve(run, most, state=state)
        assert means[-1] >= 0.9, (seed, means)


def test_presets_change_only_what_they_may():
    allowed = {field.name for field in dataclasses.fields(dreamer.Config)} | {"total_steps", "num_envs", "size", "representation"}
    assert all(set(preset) <= allowed for preset in DREAMER.values())
