"""A run in which numbers stop being finite stops, says where they came from, and keeps the last good state."""

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax.algo import ppo
from rl4jax.cli.errors import RunFailed
from rl4jax.cli.main import main
from rl4jax.cli.options import Options
from rl4jax.cli.progress import Progress
from rl4jax.cli.run import Run
from rl4jax.cli.session import train_session
from rl4jax.core.env import AbstractEnv, Step
from rl4jax.core.run_dir import RunDir
from rl4jax.core.vec_env import VecEnv
from tests.cli.terminal import logged


class Poisoned(AbstractEnv):
    """Episodes of five steps; from step `at` of an episode, rewards and observations have these values added."""

    reward: float = 0.0
    obs: float = 0.0
    at: int = eqx.field(default=0, static=True)

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)

    @property
    def action_space(self):
        return gymnasium.spaces.Discrete(2)

    def reset(self, key):
        return jnp.int32(0), jnp.zeros(1)

    def step(self, t, action, key):
        t, bad = t + 1, t >= self.at
        obs, reward = jnp.where(bad, self.obs, 0.0), jnp.where(bad, self.reward, 0.0)
        return t, Step(jnp.full(1, obs), 1.0 + reward, jnp.bool_(False), t >= 40)


def make_run(path, env, num_updates=4, cfg=None, **options):
    cfg = cfg or ppo.Config(num_steps=16, num_minibatches=2, update_epochs=1)
    chosen = Options(env="Poisoned", total_steps=num_updates * 32, num_envs=2, hidden=(4,), eval_episodes=2, **options)
    return Run(RunDir(path), chosen, cfg, VecEnv(env, num_envs=2))


def train(run):
    return train_session(run, Progress(quiet=True), eval_env=run.env)


def test_a_reward_that_is_not_finite_stops_the_run_with_the_last_good_state_saved(tmp_path):
    run = make_run(tmp_path, Poisoned(reward=float("nan"), at=20), checkpoint_every=3)
    with pytest.raises(
        RunFailed, match=r"(?s)The update after step 32 learned nothing.*policy_loss, value_loss.*rewards \(24\).*step 32 is saved"
    ):
        train(run)
    step, state = run.need()
    assert (step, int(state.num_updates)) == (32, 1)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(state.packed.params))
    assert {step for _, step in logged(tmp_path)[0]} == {32}


def test_observations_that_are_not_finite_are_named(tmp_path):
    with pytest.raises(RunFailed, match=r"already in the rollout: observations \(22\)"):
        train(make_run(tmp_path, Poisoned(obs=float("inf"), at=20)))


def test_an_update_that_diverges_is_told_from_a_broken_environment(tmp_path):
    cfg = ppo.Config(num_steps=16, num_minibatches=2, update_epochs=2, lr=1e38)
    with pytest.raises(RunFailed, match=r"(?s)so the update itself diverged.*smaller --lr.*step 0 is saved"):
        train(make_run(tmp_path, Poisoned(), cfg=cfg))


def test_skip_goes_on_and_counts(tmp_path):
    cfg = ppo.Config(num_steps=16, num_minibatches=2, update_epochs=2, lr=1e38)
    run = make_run(tmp_path, Poisoned(), cfg=cfg, on_nonfinite="skip", log_every=2)
    outcome = train(run)
    assert (outcome.step, outcome.tally.total_skipped) == (128, 4)
    assert logged(tmp_path)[1]["train/skipped", 64] == 2
    jax.tree.map(np.testing.assert_array_equal, outcome.state.packed.params, run.fresh().packed.params)


def test_skip_does_not_forgive_a_broken_environment(tmp_path):
    run = make_run(tmp_path, Poisoned(reward=float("inf"), at=20), on_nonfinite="skip")
    with pytest.raises(RunFailed, match=r"(?s)Poisoned gave 24 rewards that are not finite.*step 32 is saved"):
        train(run)
    assert run.need()[0] == 32


def test_the_command_ends_with_exit_code_1_and_the_message(tmp_path, monkeypatch, capsys):
    env = VecEnv(Poisoned(reward=float("nan"), at=20), num_envs=2)
    monkeypatch.setattr("rl4jax.cli.run.make_env", lambda name, num_envs: env)
    flags = [
        "--num-envs",
        "2",
        "--num-steps",
        "16",
        "--num-minibatches",
        "2",
        "--update-epochs",
        "1",
        "--hidden",
        "4",
        "--total-steps",
        "128",
    ]
    assert main(["train", "ppo", "CartPole", "--no-preset", *flags, "--out", str(tmp_path / "run"), "--quiet"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "rewards (24)" in captured.err
    assert RunDir(tmp_path / "run").steps() == [0, 32]
