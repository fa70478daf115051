"""What IMPALA reaches on CartPole: greedy evaluation of the last weights over 100 episodes, on-policy and with old rollouts."""

import collections

import jax
import numpy as np
import pytest

import rl4jax as rl
from rl4jax import impala
from rl4jax.cli.presets import IMPALA
from tests.learning.presets_reach import budget, evaluate, evaluations

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def test_every_seed_reaches_on_policy(tmp_path):
    assert budget("impala", "CartPole") <= 1_000_000
    means = evaluations("impala", "CartPole", 5, tmp_path)
    assert (means >= 475).all(), means


def test_every_seed_reaches_with_actors_eight_updates_behind():
    preset = IMPALA["CartPole"]
    assert set(preset) == {"total_steps", "num_envs", "num_steps", "lr", "max_grad_norm"}
    assert preset["lr"] == "linear(1e-3, 0)"
    num_updates = 1_000_000 // (preset["num_envs"] * preset["num_steps"]) - 8
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=preset["num_envs"])
    cfg = impala.Config(num_steps=preset["num_steps"], lr=rl.Linear(1e-3, 0.0, num_updates), max_grad_norm=preset["max_grad_norm"])
    means = []
    for seed in range(5):
        model_key, key, eval_key = jax.random.split(jax.random.key(seed), 3)
        state = impala.init(rl.nn.ActorCritic(env, key=model_key), env, cfg, key=key)
        queue = collections.deque()
        for _ in range(num_updates + 8):
            state, rollout = impala.collect(state, env, cfg)
            queue.append(rollout)
            if len(queue) > 8:
                state, _ = impala.update(state, queue.popleft(), cfg)
        assert int(state.num_updates) == num_updates
        means.append(evaluate(state, "CartPole", eval_key))
    assert (np.array(means) >= 475).all(), means
