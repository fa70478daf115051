"""Each command from end to end, in a process of its own where that matters."""

import json
import pathlib
import re

import numpy as np
import pytest
from PIL import Image

from rl4jax.cli import folder, report, session, settings
from rl4jax.cli.algorithms import TRAINED
from rl4jax.cli.environment import make_picture_env
from rl4jax.cli.launch import about_preset
from rl4jax.cli.main import main
from rl4jax.cli.output import hint
from rl4jax.core.errors import EnvError, Rl4JaxError
from rl4jax.core.run_dir import RunDir
from rl4jax.envs.registry import BUILT_IN
from tests.cli.terminal import STEPS_PER_UPDATE, TINY, assert_same_bits, in_tensorboard, logged, rl4jax, start

KEYS = {"eval_return_mean", "eval_return_std", "steps", "train_seconds", "compile_seconds", "steps_per_second"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a finished run, and what the command said."""
    run = tmp_path_factory.mktemp("runs") / "first"
    answer = rl4jax(
        "train", "ppo", "CartPole", *TINY, "--total-steps", 330, "--seed", 3, "--out", run, "--json", "--tensorboard", "--eval-every", 7
    )
    return run, answer


def test_train_prints_one_line_of_json(trained):
    run, (code, out, err) = trained
    assert code == 0, err
    result = json.loads(out)
    assert out.count("\n") == 1
    assert result.keys() >= KEYS
    assert (result["env"], result["seed"], result["out"], result["steps"]) == ("CartPole", 3, str(run), 20 * STEPS_PER_UPDATE)
    assert result["eval_return_mean"] >= 8
    assert result["compile_seconds"] > 0
    assert result["steps_per_second"] == pytest.approx(result["steps"] / result["train_seconds"], rel=0.05)
    assert json.loads((run / "result.json").read_text()) == result


def test_a_picture_that_cannot_be_made_is_no_failure(tmp_path, monkeypatch, capsys):
    def no_display(*args, **kwargs):
        raise RuntimeError("no display")

    monkeypatch.setattr(report, "record_episode", no_display)
    run = tmp_path / "run"
    assert main(["train", "ppo", "ProbeConstant", *TINY, "--total-steps", "64", "--out", str(run), "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == json.loads((run / "result.json").read_text())
    assert "No episode: RuntimeError: no display" in said.err


def test_a_run_folder_holds_all_that_is_needed(trained):
    run, _ = trained
    config = json.loads((run / "config.json").read_text())
    assert (config["algorithm"], config["env"], config["seed"], config["hidden"], config["gamma"]) == ("ppo", "CartPole", 3, [8], 0.99)
    assert json.loads((run / "versions.json").read_text()).keys() >= {"python", "rl4jax", "jax", "jaxlib", "equinox", "optax", "numpy"}
    with Image.open(run / "curve.png") as curve, Image.open(run / "episode.gif") as episode:
        assert curve.width > 600
        assert episode.n_frames > 1
    assert RunDir(run).steps() == [16 * STEPS_PER_UPDATE, 18 * STEPS_PER_UPDATE, 20 * STEPS_PER_UPDATE]
    assert RunDir(run).best_path.exists()


def test_each_step_is_logged_once_in_both_logs(trained):
    run, _ = trained
    counts, values = logged(run)
    assert set(counts.values()) == {1}
    assert in_tensorboard(run) == counts
    assert {step for key, step in counts if key == "train/loss"} == set(range(STEPS_PER_UPDATE, 321, STEPS_PER_UPDATE))
    assert {step for key, step in counts if key == "eval/return_mean"} == {7 * STEPS_PER_UPDATE, 14 * STEPS_PER_UPDATE, 320}
    assert all(np.isfinite(value) for value in values.values())


def test_the_stored_toml_repeats_the_run_bit_by_bit(trained, tmp_path):
    run, _ = trained
    code, _, err = rl4jax("train", "ppo", "--config", run / "config.toml", "--out", tmp_path / "again", "--quiet")
    assert code == 0, err
    assert_same_bits(run, tmp_path / "again")


def test_a_folder_with_a_run_is_refused(trained, capsys):
    run, _ = trained
    assert main(["train", "ppo", "CartPole", "--out", str(run)]) == 2
    assert f"rl4jax resume {run}" in capsys.readouterr().err.replace("\n", "")


def test_resuming_a_finished_run_reports_its_evaluation(trained, capsys):
    run, (_, out, _) = trained
    assert main(["resume", str(run), "--json"]) == 0
    captured = capsys.readouterr()
    again, first = json.loads(captured.out), json.loads(out)
    assert "is finished" in captured.err
    assert [again[name] for name in ("eval_return_mean", "eval_return_std", "steps")] == [
        first[name] for name in ("eval_return_mean", "eval_return_std", "steps")
    ]


def test_eval_repeats_the_evaluation_of_the_run(trained, capsys):
    run, (_, out, _) = trained
    assert main(["eval", str(run), "--episodes", "4", "--json"]) == 0
    again, first = json.loads(capsys.readouterr().out), json.loads(out)
    assert again["eval_return_mean"] == first["eval_return_mean"]
    assert main(["eval", str(run), "--episodes", "4", "--which", "best", "--sample", "--seed", "1"]) == 0
    assert "over 4 episodes, sampled actions" in capsys.readouterr().out


def test_record_writes_a_gif(trained, tmp_path, capsys):
    run, _ = trained
    assert main(["record", str(run), "--out", str(tmp_path / "a.gif"), "--max-steps", "5"]) == 0
    with Image.open(tmp_path / "a.gif") as gif:
        assert gif.n_frames > 1
    assert "a.gif" in capsys.readouterr().out


def test_plot_draws_several_runs_into_one_picture(trained, tmp_path, capsys):
    run, _ = trained
    assert main(["plot", str(run), str(run), "--out", str(tmp_path / "both.png")]) == 0
    assert main(["plot", str(run), "--metric", "train/loss", "--out", str(tmp_path / "loss.png")]) == 0
    assert main(["plot", str(run), str(run), "--mean", "--out", str(tmp_path / "mean.png")]) == 0
    for name in ("both.png", "loss.png", "mean.png"):
        with Image.open(tmp_path / name) as picture:
            assert len(np.unique(np.asarray(picture.convert("L")))) > 20
    capsys.readouterr()
    assert main(["plot", str(run), "--metric", "train/los"]) == 2
    assert "Did you mean 'train/loss'?" in capsys.readouterr().err.replace("\n", " ")


def test_envs_lists_spaces_and_presets(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["envs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line.split() for line in lines if "CartPole" in line) == [
        "CartPole",
        "Box[4]",
        "float32",
        "Discrete(2)",
        "ppo",
        "dqn",
        "impala",
        "dreamer",
    ]
    assert next(line.split()[:3] for line in lines if "Catch,rows" in line) == ["Catch,rows=16,columns=16", "Box[16,", "16,"]


@pytest.mark.parametrize("columns", ["40", "80"])
def test_envs_cuts_no_name_and_no_preset(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["envs"]) == 0
    words = capsys.readouterr().out.split()
    assert {*BUILT_IN, "gym:LunarLander-v3", "impala"} <= set(words)


@pytest.mark.parametrize("algorithm", [x for x in TRAINED.values() if "CartPole" in x.presets], ids=lambda x: x.name)
def test_envs_shows_each_preset_as_a_file_that_can_be_read(algorithm, tmp_path, capsys):
    assert main(["envs", "CartPole"]) == 0
    of_algorithm = capsys.readouterr().out.split(f"# rl4jax {algorithm.command} CartPole\n")[1].split("\n\n")[0]
    (tmp_path / "preset.toml").write_text(of_algorithm)
    found = settings.read_toml(algorithm, str(tmp_path / "preset.toml"))
    assert found == settings.checked(algorithm, algorithm.presets["CartPole"], "preset")


def test_fields_of_a_built_in_environment_follow_its_name():
    env = make_picture_env("Catch,rows=6, columns=4")
    assert (env.rows, env.columns) == (6, 4)
    assert make_picture_env("CartPole,gravity=1.6").gravity == 1.6
    for typed, said in (
        ("Catch,rows", "'rows' is not FIELD=NUMBER"),
        ("Catch,rows=a", "'rows=a' is not FIELD=NUMBER"),
        ("Catch,row=6", "Did you mean 'rows'"),
        ("Catch,rows=1", "at least 2"),
        ("Ketch,rows=6", "Did you mean 'Catch'"),
    ):
        with pytest.raises(Rl4JaxError, match=re.escape(said)):
            make_picture_env(typed)


def test_envs_says_where_there_is_no_preset(capsys):
    for name, said in (("Catch", "begins with its defaults.\n"), ("gym:CartPole-v1", "defaults. (CartPole, built in, has one.)\n")):
        assert main(["envs", name]) == 0
        assert capsys.readouterr().out.endswith(said)


def test_train_says_whether_there_is_a_preset():
    dqn = TRAINED["dqn"]
    assert "known to learn CartPole" in about_preset(dqn, "CartPole")
    assert about_preset(dqn, "gym:CartPole-v1").endswith(
        "No preset for gym:CartPole-v1: DQN's defaults, and your flags. (CartPole, built in, has one.)"
    )
    for name in ("gym:Pendulum-v1", "Catch", "my_game:CartPole"):  # of which DQN has no preset either
        assert about_preset(dqn, name) == f"No preset for {name}: DQN's defaults, and your flags."


def test_hints_name_the_program_as_it_was_started_if_it_is_not_on_the_path(monkeypatch):
    monkeypatch.setattr("sys.argv", [".venv/bin/rl4jax", "train"])
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert hint("resume", "runs/my first") == ".venv/bin/rl4jax resume 'runs/my first'"
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/rl4jax")
    assert hint("resume", "runs/first") == "rl4jax resume runs/first"


def test_train_says_where_things_are(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "ppo", "ProbeConstant", *TINY, "--total-steps", "32"]) == 0
    captured = capsys.readouterr()
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith("ppo-ProbeConstant-2")
    for words in ("Evaluation: return 1 ± 0 over 4 episodes", "curve.png", "rl4jax record", "rl4jax plot", "rl.load_policy"):
        assert words in captured.out


def test_without_matplotlib_training_goes_on_and_plot_says_how_to_install_it(trained, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    assert main(["train", "ppo", "ProbeConstant", *TINY, "--total-steps", "32", "--out", str(tmp_path / "run")]) == 0
    assert "No curve: A picture of the learning curve needs an optional package." in capsys.readouterr().err
    assert main(["plot", str(trained[0])]) == 1
    assert "pip install 'rl4jax[plot]'" in capsys.readouterr().err


def test_a_host_environment_trains_and_resumes_with_fresh_episodes(tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", "ppo", "gym:CartPole-v1", *TINY, "--total-steps", "64", "--normalize-obs", "--out", str(run), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["steps"] == 64
    for step in (48, 64):
        RunDir(run).step_path(step).unlink()
    assert main(["resume", str(run), "--json"]) == 0
    captured = capsys.readouterr()
    assert "begin anew" in captured.err
    assert json.loads(captured.out)["steps"] == 64
    assert set(logged(run)[0].values()) == {1}
    assert main(["eval", str(run), "--episodes", "3"]) == 0


def test_memory_and_continuous_actions_train(tmp_path, capsys):
    flags = ["--core", "gru", "--shared", "--squash", "--log-std", "model", "--normalize-reward", "--target-kl", "0.1"]
    assert main(["train", "ppo", "Pendulum", *TINY, *flags, "--total-steps", "32", "--out", str(tmp_path / "run"), "--quiet"]) == 0
    assert main(["record", str(tmp_path / "run"), "--max-steps", "3"]) == 0


def test_a_finished_run_can_be_made_longer(tmp_path, capsys):
    run = tmp_path / "run"
    flags = ("ProbeConstant", *TINY, "--checkpoint-every", "1", "--quiet")
    assert main(["train", "ppo", *flags, "--total-steps", "32", "--out", str(run)]) == 0
    assert main(["resume", str(run), "--total-steps", "64", "--quiet"]) == 0
    assert main(["train", "ppo", *flags, "--total-steps", "64", "--out", str(tmp_path / "at once")]) == 0
    assert_same_bits(run, tmp_path / "at once")
    assert json.loads((run / "result.json").read_text())["steps"] == 64
    assert json.loads((run / "config.json").read_text())["total_steps"] == 64
    capsys.readouterr()
    assert main(["resume", str(run), "--total-steps", "48"]) == 2
    assert f"--total-steps = 48 must be at least 64, the steps that {run} has been trained for." in capsys.readouterr().err


def test_two_that_start_in_one_folder_do_not_mix(tmp_path):
    flags = ("train", "ppo", "ProbeConstant", *TINY, "--total-steps", 32, "--quiet", "--out", tmp_path / "run")
    first, second = start(*flags, "--seed", 1), start(*flags, "--seed", 2)
    said = [process.communicate(timeout=120)[1] for process in (first, second)]
    codes = [first.returncode, second.returncode]
    assert sorted(codes) == [0, 2], said
    assert any(words in said[codes.index(2)] for words in ("is in use by process", "already holds a run")), said
    winner = json.loads((tmp_path / "run" / "result.json").read_text())["seed"]
    assert winner == 1 + codes.index(0) == json.loads((tmp_path / "run" / "config.json").read_text())["seed"]


def test_runs_of_one_second_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folder, "default_folder", lambda run: pathlib.Path("runs") / run.options.env)
    for _ in range(2):
        assert main(["train", "ppo", "ProbeConstant", *TINY, "--total-steps", "32", "--quiet"]) == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["ProbeConstant", "ProbeConstant-2"]


OWN_ENV = """
import ctypes
import jax.numpy as jnp
import rl4jax as rl
from gymnasium import spaces

ctypes.CDLL(None).puts(b"hello from C")


class Coin(rl.AbstractEnv):
    @property
    def observation_space(self):
        return spaces.Box(0, 1, (1,), jnp.float32)

    @property
    def action_space(self):
        return spaces.Discrete(2)

    def reset(self, key):
        return jnp.int32(0), jnp.zeros(1)

    def step(self, state, action, key):
        ended = jnp.array(True)
        return state, rl.Step(jnp.zeros(1), action.astype(jnp.float32), ended, ~ended)
"""


def test_ones_own_environment_trains_and_c_libraries_do_not_spoil_the_json(tmp_path):
    (tmp_path / "my_game.py").write_text(OWN_ENV)
    flags = (*TINY, "--total-steps", 32, "--json")
    code, out, err = rl4jax("train", "ppo", "my_game:Coin", *flags, "--out", "run", cwd=tmp_path)
    assert code == 0, err
    assert json.loads(out)["env"] == "my_game:Coin"
    assert "hello from C" in err
    code, out, err = rl4jax("eval", "run", "--episodes", 4, "--json", cwd=tmp_path)
    assert json.loads(out)["episodes"] == 4, err
    for name, said in (
        ("my_game:Coim", "Did you mean 'Coin'?"),
        ("nowhere:Coin", "there is no module 'nowhere' in this folder"),
        ("json:JSONEncoder", "no rl4jax AbstractEnv"),
        (":Coin", "is not module:Class"),
    ):
        code, _, err = rl4jax("train", "ppo", name, cwd=tmp_path)
        assert code == 2
        assert said in err


def test_a_longer_run_whose_evaluation_failed_is_evaluated_when_it_goes_on(tmp_path, monkeypatch, capsys):
    run = tmp_path / "run"
    assert main(["train", "ppo", "ProbeConstant", *TINY, "--total-steps", "32", "--out", str(run), "--quiet"]) == 0

    def fails(*args, **kwargs):
        raise EnvError("once")

    with monkeypatch.context() as patched:
        patched.setattr(session, "evaluate", fails)
        assert main(["resume", str(run), "--total-steps", "64", "--quiet"]) == 1
    assert main(["resume", str(run), "--quiet"]) == 0
    assert {step for key, step in logged(run)[0] if key == "eval/return_mean"} == {32, 64}
    assert json.loads((run / "result.json").read_text())["steps"] == 64


def test_each_episode_that_can_be_asked_for_has_its_own_file(trained, capsys):
    run, _ = trained
    kept = (run / "episode.gif").read_bytes()
    assert main(["record", str(run), "--seed", "5", "--sample", "--which", "best", "--max-steps", "3"]) == 0
    assert (run / "episode-best-sampled-seed5.gif").exists()
    assert (run / "episode.gif").read_bytes() == kept
