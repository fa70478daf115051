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
PROTOTYPES = functools.partial(dreamer.Prototypes, num_prototypes=512, shift=1, frozen_for=500)
LARGER = dreamer.Size(deter=256, hidden=128, units=128, classes=4, depth=8, num_bins=63, most_pixels=8)
PAINTING = {
    "train_ratio": 96.0, "lr": "linear(1.5e-3, 1e-4)", "b2": 0.99, "weight_decay": 0.5, "entropy_coef": "linear(0.03, 0.004, 5000)",
    "representation_coef": 10.0, "dyn_coef": 1.0, "rep_coef": 0.1,
}  # fmt: skip


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


@pytest.mark.parametrize(
    ("representation", "size", "changes"),
    [("decoder", LARGER, PAINTING), ("infonce", "tiny", {}), (PROTOTYPES, "tiny", {"total_steps": 24_000, "train_ratio": 96.0})],
    ids=["decoder", "infonce", "prototypes"],
)
def test_every_seed_catches_with_the_other_representations(representation, size, changes, tmp_path):
    for seed in SEEDS:
        run = prepared("dreamer", CATCH, seed, tmp_path, **changes)
        agent = dreamer.Agent(run.env, size, representation, key=jax.random.key(seed))
        state = dreamer.init(agent, run.env, run.cfg, key=run.key("init"))
        _, means = curve(run, run.last_step, state=state)
        assert means[-1] >= 0.9, (seed, means)


def test_presets_change_only_what_they_may():
    allowed = {field.name for field in dataclasses.fields(dreamer.Config)} | {"total_steps", "num_envs", "size", "representation"}
    assert all(set(preset) <= allowed for preset in DREAMER.values())
