"""DQN and IMPALA on the command line: turns of many updates, memories on the host and on disk, and all that PPO has."""

import json
import shutil

import gymnasium
import jax
import numpy as np
import pytest

from rl4jax.algo import dqn
from rl4jax.algo.acting import act
from rl4jax.cli import load_policy, load_run
from rl4jax.cli.main import main
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.run_dir import RunDir
from rl4jax.core.vec_env import VecEnv
from rl4jax.envs.registry import make
from rl4jax.nn.q_network import QNetwork
from tests.cli.terminal import STEPS_PER_TURN, TINY_DQN, TINY_IMPALA, assert_same_bits, final_tensors, logged

TINY = {"dqn": TINY_DQN, "impala": TINY_IMPALA}


def train(algorithm, env, out, *flags, steps=10 * STEPS_PER_TURN):
    argv = ["train", algorithm, env, "--no-preset", *TINY[algorithm], "--total-steps", str(steps), "--out", str(out), "--quiet", *flags]
    assert main(argv) == 0
    return out


@pytest.fixture(scope="module", params=["dqn", "impala"])
def trained(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / request.param
    return request.param, train(request.param, "CartPole", path, "--log-every", "1", "--tensorboard")


def test_a_run_of_any_algorithm_holds_all_that_is_needed(trained):
    name, run = trained
    result = json.loads((run / "result.json").read_text())
    assert (result["steps"], result["env"], result["skipped_updates"]) == (10 * STEPS_PER_TURN, "CartPole", 0)
    assert json.loads((run / "config.json").read_text())["algorithm"] == name
    assert (run / "config.toml").read_text().startswith(f"# rl4jax train {name} --config")
    assert all((run / picture).stat().st_size > 1000 for picture in ("curve.png", "episode.gif"))
    counts, values = logged(run)
    assert set(counts.values()) == {1}
    assert {step for key, step in counts if key == "train/lr"} == set(range(STEPS_PER_TURN, 161, STEPS_PER_TURN))
    assert all(np.isfinite(value) for value in values.values())


def test_eval_record_plot_and_load_policy_work_for_any_algorithm(trained, tmp_path, capsys):
    _, run = trained
    assert main(["eval", str(run), "--episodes", "4", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["eval_return_mean"] == json.loads((run / "result.json").read_text())["eval_return_mean"]
    assert main(["record", str(run), "--out", str(tmp_path / "a.gif"), "--max-steps", "3"]) == 0
    assert main(["plot", str(run), str(run), "--out", str(tmp_path / "a.png")]) == 0
    policy, (_, state) = load_policy(run), load_run(run).need()
    for obs in np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32):
        assert policy(obs)[0] == act(state.policy, obs)[0]


def test_plot_puts_algorithms_side_by_side(trained, tmp_path, monkeypatch, capsys):
    titles = []
    monkeypatch.setattr("rl4jax.cli.commands.plot.plot_means", lambda groups, out, **about: titles.append((list(groups), about["title"])))
    _, run = trained
    shutil.copytree(run, tmp_path / "other")
    config = json.loads((run / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(json.dumps(config | {"algorithm": "ppo", "clip_eps": 0.2}))
    assert main(["plot", str(run), str(tmp_path / "other"), "--mean"]) == 0
    title = {"dqn": "DQN", "impala": "IMPALA"}[config["algorithm"]]
    assert titles == [([config["algorithm"], "ppo"], f"{title}, PPO on CartPole")]


def test_the_stored_toml_repeats_the_run_bit_by_bit(trained, tmp_path):
    name, run = trained
    assert main(["train", name, "--config", str(run / "config.toml"), "--out", str(tmp_path / "again"), "--quiet"]) == 0
    assert_same_bits(run, tmp_path / "again")


def test_a_run_of_an_algorithm_that_is_not_known_is_refused(trained, tmp_path, capsys):
    _, run = trained
    (tmp_path / "config.json").write_text((run / "config.json").read_text().replace(trained[0], "sac"))
    assert main(["eval", str(tmp_path)]) == 2
    assert "its algorithm is 'sac', and this rl4jax has ppo, dqn, impala, dreamer, bc, distill" in " ".join(capsys.readouterr().err.split())


def test_of_a_run_of_another_algorithm_the_settings_are_told_apart(trained, tmp_path, capsys):
    _, run = trained
    assert main(["train", "ppo", "--config", str(run / "config.toml"), "--out", str(tmp_path / "run")]) == 2
    assert "PPO has no setting" in capsys.readouterr().err


def test_before_learning_starts_no_loss_is_logged(tmp_path):
    run = train("dqn", "CartPole", tmp_path / "run", "--log-every", "1")
    counts, values = logged(run)
    assert {step for key, step in counts if key == "train/loss"} == set(range(32, 161, 16))  # it starts at step 24
    assert values["train/gradient_steps", 32] == 5 / 8
    assert {step for key, step in counts if key == "train/epsilon"} == set(range(16, 161, 16))


@pytest.mark.parametrize("host", [False, True])
def test_the_metrics_of_train_count_every_episode(host, getkey):
    """Against the rollouts themselves. All actions are random, so that weights do not matter."""
    env = GymVecEnv("CartPole-v1", num_envs=3) if host else VecEnv(make("CartPole"), num_envs=3)
    cfg = dqn.Config(capacity=50, batch_size=2, learning_starts=20, epsilon=1.0, num_steps=20)
    model, key = QNetwork(env, key=getkey(), hidden=(4,)), getkey()
    begun = [dqn.init(model, env, cfg, key=jax.random.clone(key)) for _ in range(1 if host else 2)]
    _, metrics = dqn.train(begun[0], env, cfg, num_updates=8)
    state = dqn.init(model, env, cfg, key=jax.random.clone(key)) if host else begun[1]
    for i in range(8):
        state, rollout = dqn.collect(state, env, cfg)
        state, _ = dqn.update(state, rollout, cfg)
        ended = np.asarray(rollout.terminated) | np.asarray(rollout.truncated)
        returns, lengths = np.asarray(rollout.episode_return)[ended], np.asarray(rollout.episode_length)[ended]
        assert metrics["rollout/episodes"][i] == len(returns)
        expected = (returns.mean(), lengths.mean()) if len(returns) else (np.nan, np.nan)
        np.testing.assert_allclose((metrics["rollout/avg_return"][i], metrics["rollout/avg_length"][i]), expected, rtol=1e-6)
    assert metrics["rollout/episodes"].sum() > 5
    assert jax.tree.map(np.shape, metrics) == dict.fromkeys(metrics, (8,))


def without_the_last_turns(run, copy, num_steps):
    """A copy of a run as it was after so many steps; its log goes on further, as after a crash."""
    shutil.copytree(run, copy)
    for step in RunDir(copy).steps():
        if step > num_steps:
            RunDir(copy).step_path(step).unlink()
    (copy / "checkpoints" / "best.safetensors").unlink()
    (copy / "result.json").unlink()


@pytest.mark.parametrize(
    ("env", "interrupted", "flags"),
    [
        ("CartPole", (0, 16, 96), ()),
        ("CartPole", (96,), ("--prioritized", "--priority-beta", "linear(0.4, 1)", "--n-step", "3", "--double", "--dueling")),
        ("GridWorld", (96,), ("--n-step", "2", "--target-every", "3", "--tau", "1")),  # with masks
    ],
    ids=["plain", "prioritised", "masked"],
)
def test_an_interrupted_run_of_dqn_goes_on_bit_by_bit(env, interrupted, flags, tmp_path):
    whole = train("dqn", env, tmp_path / "whole", "--checkpoint-every", "1", "--keep", "99", "--log-every", "1", *flags)
    for steps in interrupted:
        copy = tmp_path / f"from {steps}"
        without_the_last_turns(whole, copy, steps)
        assert main(["resume", str(copy), "--quiet"]) == 0
        assert_same_bits(copy, whole)
        assert logged(copy) == logged(whole)


def test_a_finished_run_of_dqn_can_be_made_longer(tmp_path):
    flags = ("--checkpoint-every", "1")
    whole, short = train("dqn", "CartPole", tmp_path / "whole", *flags), train("dqn", "CartPole", tmp_path / "short", *flags, steps=96)
    assert main(["resume", str(short), "--total-steps", "167", "--quiet"]) == 0  # rounded down to whole turns
    assert_same_bits(short, whole)


def test_a_short_run_is_one_turn_and_keeps_it_when_it_is_made_longer(tmp_path):
    argv = ["CartPole", "--no-preset", *TINY_DQN, "--updates-per-turn", "none", "--out", str(tmp_path / "run"), "--quiet"]
    assert main(["train", "dqn", *argv, "--total-steps", "50"]) == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["updates_per_turn"] == 25
    assert main(["resume", str(tmp_path / "run"), "--total-steps", "120", "--quiet"]) == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["steps"] == 100


@pytest.mark.parametrize("flags", [(), ("--prioritized",), ("--disk-replay",), ("--disk-replay", "--prioritized")], ids=" ".join)
def test_on_the_host_the_memory_goes_on_and_episodes_begin_anew(flags, tmp_path, capsys):
    run = train("dqn", "gym:CartPole-v1", tmp_path / "run", "--checkpoint-every", "1", *flags, steps=48)
    assert (run / "replay").exists() == ("--disk-replay" in flags)
    before = load_run(run).need()[1].replay
    assert (before.count, before.size) == (48, 48)
    items = before.items()
    for step in (32, 48):
        RunDir(run).step_path(step).unlink()
    assert main(["resume", str(run), "--total-steps", "80"]) == 0
    assert "Going on from step 16 of 80. The episodes of a host environment begin anew" in capsys.readouterr().err
    after = load_run(run).need()[1].replay
    assert after.count == 80
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x[:16], y[:16]), after.items(), items)
    assert set(logged(run)[0].values()) == {1}
    assert load_policy(run)(np.zeros(4))[0] in (0, 1)


def test_impala_trains_on_the_host_and_with_a_memory(tmp_path):
    run = train("impala", "gym:CartPole-v1", tmp_path / "run", "--core", "gru", "--checkpoint-every", "1", steps=48)
    RunDir(run).step_path(48).unlink()
    assert main(["resume", str(run), "--quiet"]) == 0
    assert RunDir(run).steps()[-1] == 48


class Breaks(gymnasium.Env):
    """Breaks at a step of its life, and then works again."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    lives = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        type(self).lives -= 1
        reward = 1.0 if type(self).lives else float("nan")
        return np.zeros(2, np.float32), reward, True, False, {}


gymnasium.register("rl4jax-tests/Breaks-v0", Breaks)


@pytest.mark.parametrize("flags", [(), ("--disk-replay",)], ids=" ".join)
def test_a_memory_that_went_on_is_not_saved_with_an_older_state(flags, tmp_path, monkeypatch, capsys):
    run = tmp_path / "run"
    monkeypatch.setattr(Breaks, "lives", 28)
    argv = ["gym:rl4jax-tests/Breaks-v0", *TINY_DQN, "--num-envs", "1", "--learning-starts", "4", "--total-steps", "64", "--out", str(run)]
    assert main(["train", "dqn", *argv, "--checkpoint-every", "1000", "--quiet", *flags]) == 1  # in the fourth turn of eight steps
    said = " ".join(capsys.readouterr().err.split())
    assert "must be finite" in said
    assert "The state of step 24 could not be saved" in said
    assert "is that of step 0" in said
    assert main(["resume", str(run), "--quiet"]) == 0, "what is saved is whole"
    assert RunDir(run).steps()[-1] == 64


def test_the_dtypes_of_a_state_do_not_change_on_the_way(tmp_path):
    """Else a resumed run would compile other programs than the one that was not interrupted."""
    run = train("dqn", "CartPole", tmp_path / "run")
    like = load_run(run).like
    assert all(x.dtype != np.float64 for x in final_tensors(run).values())
    assert not any(getattr(x, "weak_type", False) for x in jax.tree.leaves(like))
