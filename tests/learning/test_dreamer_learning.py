"""What Dreamer reaches with the presets of the command line, and after how many steps PPO does: greedy evaluation over 100 episodes.

Curves are kept in bench-results/dreamer: `docs/make_dreamer_results.py` makes the page of results of them.
"""

import dataclasses
import functools
import json
import pathlib
import time

import numpy as np
import pytest

from rl4jax import dreamer
from rl4jax.cli.presets import DREAMER
from tests.learning.presets_reach import budget, curve, prepared

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * 3600)]

KEPT = pathlib.Path(__file__).parents[2] / "bench-results" / "dreamer"
SEEDS = range(3)
CATCH = "Catch,rows=16,columns=16"
BARS = {CATCH: 0.9, "Memory": 0.95 * 17, "Pendulum": -250.0, "CartPole": 400.0}
AGAINST_PPO = ("Memory", "Pendulum", CATCH)
BUDGETS = {CATCH: 20_000, "Memory": 50_000, "Pendulum": 30_000, "CartPole": 50_000}
# Two views that are moved by a pixel each have to look alike, so where a ball is must come from what it is worth: latents may say more.
PROTOTYPES = functools.partial(dreamer.Prototypes, num_prototypes=512, shift=1, frozen_for=500)
# To these neighbouring columns are less alike: chance plays until it has caught in all of them, and there is more to learn from.
LONGER = {"total_steps": 40_000, "learning_starts": 16_000, "train_ratio": 144.0, "lr": "linear(3e-3, 3e-5)", "representation_coef": 1.0}
seeds = pytest.mark.parametrize("seed", SEEDS)


def learned(name, seed, run, **how):
    """Its curve, kept for the page of results."""
    start = time.perf_counter()
    steps, means = curve(run, 1_000, **how)
    minutes = (time.perf_counter() - start) / 60
    KEPT.mkdir(parents=True, exist_ok=True)
    kept = {"name": name, "seed": seed, "minutes": round(minutes, 1), "steps": steps.tolist(), "means": means.round(3).tolist()}
    (KEPT / f"{name}-{seed}.json").write_text(json.dumps(kept))
    return steps, means


@pytest.fixture(scope="module")
def of_preset(tmp_path_factory):
    """Curves of the presets, each learned once: Dreamer's to the end, PPO's until it is as good."""

    @functools.cache
    def of(algorithm, env, seed):
        run = prepared(algorithm, env, seed, tmp_path_factory.mktemp(algorithm))
        return learned(env, seed, run) if algorithm == "dreamer" else learned(f"PPO {env}", seed, run, until=BARS[env])

    return of


@seeds
@pytest.mark.parametrize("env", [*AGAINST_PPO, "CartPole"])
def test_every_seed_is_good_in_the_end(env, seed, of_preset):
    assert budget("dreamer", env) <= BUDGETS[env]
    _, means = of_preset("dreamer", env, seed)
    assert means[-1] >= BARS[env], means


@seeds
def test_cart_pole_is_kept(seed, of_preset):
    steps, means = of_preset("dreamer", "CartPole", seed)
    assert (means[steps >= 0.9 * steps[-1]] >= BARS["CartPole"]).all(), means


@pytest.mark.parametrize("env", AGAINST_PPO)
def test_a_third_of_the_steps_of_ppo_is_enough(env, of_preset):
    """Medians of three seeds. A seed that never got there counts with all its steps, for both."""

    def needed(algorithm):
        curves = [of_preset(algorithm, env, seed) for seed in SEEDS]
        return np.median([min(steps[means >= BARS[env]], default=steps[-1]) for steps, means in curves])

    assert needed("ppo") >= 3 * needed("dreamer")


@seeds
@pytest.mark.parametrize(
    ("name", "representation", "most_steps", "changes"),
    [
        ("decoder", "blurred", 20_000, {}),
        ("InfoNCE", dreamer.InfoNCE, 40_000, LONGER),
        ("prototypes", PROTOTYPES, 40_000, LONGER | {"dyn_coef": 0.3, "rep_coef": 0.03}),
    ],
    ids=["decoder", "infonce", "prototypes"],
)
def test_every_seed_catches_with_the_other_representations(name, representation, most_steps, changes, seed, tmp_path):
    run = prepared("dreamer", CATCH, seed, tmp_path, **changes)
    assert run.last_step <= most_steps
    agent = dreamer.Agent(run.env, run.network.size, representation, key=run.key("model"))
    _, means = learned(f"{CATCH} {name}", seed, run, state=dreamer.init(agent, run.env, run.cfg, key=run.key("init")))
    assert means[-1] >= BARS[CATCH], means


def test_presets_change_only_what_they_may():
    allowed = {field.name for field in dataclasses.fields(dreamer.Config)} | {"total_steps", "num_envs", "size", "representation"}
    assert all(set(preset) <= allowed for preset in DREAMER.values())
