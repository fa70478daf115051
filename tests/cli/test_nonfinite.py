"""A run in which numbers stop being finite stops, says where they came from, and keeps the last good state."""

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax.algo import dqn, ppo
from rl4jax.cli.algorithms import ALGORITHMS
from rl4jax.cli.errors import RunFailed
from rl4jax.cli.main import main
from rl4jax.cli.networks import ActorCriticOptions, QNetworkOptions
from rl4jax.cli.options import ReplayOptions, TrainingOptions
from rl4jax.cli.progress import Progress
from rl4jax.cli.session import train_session
from rl4jax.cli.training import Training
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
    chosen = TrainingOptions(env="Poisoned", total_steps=num_updates * 32, num_envs=2, eval_episodes=2, **options)
    return Training(RunDir(path), ALGORITHMS["ppo"], chosen, ActorCriticOptions(hidden=(4,)), cfg, VecEnv(env, num_envs=2))


def make_dqn_run(path, env, lr=1e-3, **options):
    """Turns of ten updates with one step each."""
    chosen = ReplayOptions(env="Poisoned", total_steps=40, num_envs=1, eval_episodes=2, updates_per_turn=10, **options)
    cfg = dqn.Config(lr=lr, capacity=100, batch_size=4, learning_starts=12)
    return Training(RunDir(path), ALGORITHMS["dqn"], chosen, QNetworkOptions(hidden=(4,)), cfg, VecEnv(env, num_envs=1))


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


def test_an_update_among_many_is_named_by_its_step(tmp_path):
    run = make_dqn_run(tmp_path, Poisoned(reward=1e30))  # finite, but not its square
    with pytest.raises(
        RunFailed,
        match=r"(?s)update after step 11 learned.*in the update: grad_norm, loss\..*Try a smaller --lr, --max-grad-norm 0.5\. .*step 10 is",
    ):
        train(run)
    assert run.need()[0] == 10


def test_updates_among_many_are_skipped_and_counted(tmp_path):
    run = make_dqn_run(tmp_path, Poisoned(reward=1e30), on_nonfinite="skip", log_every=10)
    outcome = train(run)
    assert outcome.tally.total_skipped == 29  # from step 12 on
    counts, values = logged(tmp_path)
    assert [values["train/skipped", step] for step in (10, 20, 30, 40)] == [0, 9, 10, 10]
    assert ("train/loss", 10) not in counts, "before learning starts there is none"
    jax.tree.map(np.testing.assert_array_equal, outcome.state.packed.params, run.fresh().packed.params)


def test_a_memory_on_the_host_is_saved_as_it_is_after_the_failure(tmp_path, capsys):
    """The state before it is gone: the ring is written in place. What was skipped has changed no weight."""
    flags = ["--num-envs=2", "--learning-starts=8", "--lr=1e30", "--updates-per-turn=2", "--hidden=4", "--eval-episodes=2", "--quiet"]
    out = tmp_path / "run"
    assert main(["train", "dqn", "gym:CartPole-v1", "--total-steps=400", *flags, "--out", str(out)]) == 1
    assert "could not be saved" not in (message := capsys.readouterr().err)
    saved = RunDir(out).steps()[-1]
    assert f"The state of step {saved} is saved in" in message
    assert saved > 0
    assert main(["resume", str(out), "--on-nonfinite", "skip", "--quiet"]) == 0


def test_a_broken_environment_is_found_in_the_middle_of_a_turn(tmp_path):
    with pytest.raises(RunFailed, match=r"(?s)Poisoned gave 5 rewards that are not finite.*step 10 is saved"):
        train(make_dqn_run(tmp_path, Poisoned(reward=float("nan"), at=15)))


def test_the_command_ends_with_exit_code_1_and_the_message(tmp_path, monkeypatch, capsys):
    env = VecEnv(Poisoned(reward=float("nan"), at=20), num_envs=2)
    monkeypatch.setattr("rl4jax.cli.training.make_env", lambda name, num_envs: env)
    flags = ["--num-envs=2", "--num-steps=16", "--num-minibatches=2", "--update-epochs=1", "--hidden=4", "--total-steps=128"]
    assert main(["train", "ppo", "CartPole", "--no-preset", *flags, "--out", str(tmp_path / "run"), "--quiet"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "rewards (24)" in captured.err
    assert RunDir(tmp_path / "run").steps() == [0, 32]
