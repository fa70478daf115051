"""Flags, presets and TOML files: every setting has a name, the later source wins, and what is unknown gets a suggestion."""

import dataclasses
import re
import subprocess
import sys

import pytest

from rl4jax.cli import presets, settings
from rl4jax.cli.algorithms import ALGORITHMS, TRAINED
from rl4jax.cli.build import build_run
from rl4jax.cli.flags import read_settings
from rl4jax.cli.main import main
from rl4jax.core.schedule import Linear


def told(*argv, algorithm="ppo"):
    return read_settings(ALGORITHMS[algorithm], argv)[1]


def refused(capsys, *argv):
    try:
        code = main(argv)
    except SystemExit as error:  # tyro's way, for values
        code = error.code
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return " ".join(captured.err.split())


FIELDS = [(name, field) for name, algorithm in ALGORITHMS.items() for field in dataclasses.fields(algorithm.module.Config)]


def another(value):
    """Another value for a flag, as it is typed."""
    if isinstance(value, int):
        return str(value + 8)
    return "linear(0.5, 0.25, 100.0)" if callable(value) else "0.75"


@pytest.mark.parametrize(("name", "field"), FIELDS, ids=[f"{name} {field.name}" for name, field in FIELDS])
def test_every_field_of_the_config_is_a_flag(name, field):
    flag, default = field.name.replace("_", "-"), field.default
    words = [f"--no-{flag}" if default else f"--{flag}"] if isinstance(default, bool) else [f"--{flag}", another(default)]
    usual, changed = told("Nothing", algorithm=name), told("Nothing", *words, algorithm=name)
    if not callable(default):
        assert usual[field.name] == default
        assert changed[field.name] == (not default if isinstance(default, bool) else float(words[1]))
    assert {other for other in usual if usual[other] != changed[other]} == {field.name}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_help_shows_what_applies_and_a_text_for_every_option(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as exit_:
        main([*ALGORITHMS[name].command.split(), "--help"])
    text = capsys.readouterr().out
    assert exit_.value.code == 0
    shown = {
        word
        for flag in ("--core", "--dueling", "--clip-eps", "--epsilon", "--epochs", "--preset", "--env")
        for word in [flag]
        if word in text
    }
    wanted = {"ppo": {"--core", "--clip-eps", "--preset"}, "impala": {"--core", "--preset"}, "dqn": {"--dueling", "--epsilon", "--preset"}}
    wanted |= {"dreamer": {"--preset"}}
    assert shown == wanted.get(name, {"--epochs"})
    assert ("linear(1.0, 0.05, 10000.0)" in text) == (name == "dqn")
    assert "(default: )" not in text
    assert "(default: '')" not in text
    assert not re.search(r"0 = the caller|`train`|FLOAT\|INT", text), "what only Python offers"
    assert ("RUN..." in text) == (name == "distill")
    for cls in (ALGORITHMS[name].options, ALGORITHMS[name].network, ALGORITHMS[name].flags, ALGORITHMS[name].module.Config):
        assert settings.comments(cls).keys() == {field.name for field in dataclasses.fields(cls)}


def test_flags_win_over_the_file_the_file_over_the_preset_and_the_preset_over_defaults(tmp_path, monkeypatch):
    monkeypatch.setitem(presets.PPO, "Pendulum", {"gamma": 0.9, "vf_coef": 0.1, "ent_coef": 0.1, "hidden": [32]})
    file = tmp_path / "my.toml"
    file.write_text("vf_coef = 0.2\nent_coef = 0.2\n")
    found = told("Pendulum", "--config", str(file), "--ent-coef", "0.3")
    assert [found[name] for name in ("clip_eps", "gamma", "vf_coef", "ent_coef", "hidden")] == [0.2, 0.9, 0.2, 0.3, (32,)]
    assert told("Pendulum", "--no-preset")["gamma"] == 0.99


def test_a_file_may_name_the_environment(tmp_path):
    file = tmp_path / "my.toml"
    file.write_text('env = "Catch"\n')
    assert told("--config", str(file))["env"] == "Catch"
    assert told("Memory", "--config", str(file))["env"] == "Memory"


def test_all_settings_survive_toml(tmp_path):
    before = told("CartPole", "--hidden", "32", "16", "--target-kl", "0.1", "--lr", "linear(1e-3, 0)", "--core", "gru", "--shared")
    file = tmp_path / "all.toml"
    file.write_text(settings.to_toml(before))
    assert told("--config", str(file)) == before


@pytest.mark.parametrize("name", ["dqn", "bc"])
def test_the_defaults_of_others_survive_toml_too(name, tmp_path):
    before = told("Catch", algorithm=name)
    file = tmp_path / "all.toml"
    file.write_text(settings.to_toml({setting: value for setting, value in before.items() if setting != "env"}))
    assert told("Catch", "--config", str(file), algorithm=name) == before
    assert name != "dqn" or 'epsilon = "linear(1.0, 0.05, 10000.0)"' in file.read_text()


@pytest.mark.parametrize("algorithm", TRAINED.values(), ids=list(TRAINED))
def test_every_preset_is_a_valid_run(algorithm, tmp_path):
    for env, preset in algorithm.presets.items():
        found = settings.checked(algorithm, preset, env) | {"env": env.replace("gym:LunarLander-v3", "gym:CartPole-v1")}
        build_run(algorithm, settings.defaults(algorithm) | found, tmp_path)


def built(tmp_path, *argv, algorithm="ppo"):
    return build_run(ALGORITHMS[algorithm], told(*argv, algorithm=algorithm), tmp_path)


def test_a_linear_learning_rate_ends_with_the_run(tmp_path):
    run = built(tmp_path, "Catch", "--no-preset", "--lr", "linear(1e-3,0)", "--total-steps", "2048", "--num-envs", "4")
    assert run.cfg.lr == Linear(1e-3, 0.0, 4.0)


def test_each_line_of_dqn_counts_what_it_counts(tmp_path):
    flags = ["--lr", "linear(1e-3, 0)", "--epsilon", "linear(1, 0.1)", "--priority-beta", "linear(0.4, 1, 7)", "--total-steps", "10_000"]
    run = built(tmp_path, "Catch", "--no-preset", *flags, "--num-envs", "4", algorithm="dqn")
    assert (run.last_step, run.num_updates) == (10_000, 2_500)
    assert run.cfg.lr == Linear(1e-3, 0.0, 2_500.0)
    assert run.cfg.epsilon == Linear(1.0, 0.1, 10_000.0)
    assert run.cfg.priority_beta == Linear(0.4, 1.0, 7.0)
    assert built(tmp_path, "Catch", "--no-preset", algorithm="dqn").cfg.epsilon == Linear(1.0, 0.05, 10_000.0)


def test_a_learning_rate_of_dreamer_counts_gradient_steps(tmp_path):
    flags = ("--no-preset", "--total-steps", "10_240", "--num-envs", "4", "--train-ratio", "64", "--batch-size", "16", "--length", "16")
    run = built(tmp_path, "CartPole", *flags, "--lr", "linear(1e-3, 1e-4)", algorithm="dreamer")
    assert run.last_step == 10_240
    assert run.cfg.lr == Linear(1e-3, 1e-4, (10_240 - 1_000) * 64 / 256)
    assert built(tmp_path, "CartPole", "--no-preset", algorithm="dreamer").cfg.lr == Linear(0.0, 4e-5, 1000.0)


@pytest.mark.parametrize(
    ("argv", "per_turn", "turns", "rhythm"),
    [
        (["--total-steps", "10_500"], 250, 10, (1, 0, 1)),  # 4 environments: 1000 steps a turn, and the last 500 are left out
        (["--total-steps", "400"], 100, 1, (1, 0, 1)),
        (["--num-envs", "2000", "--total-steps", "20_000"], 1, 10, (1, 0, 1)),
        (["--updates-per-turn", "10", "--log-every", "25", "--eval-every", "21", "--checkpoint-every", "1"], 10, 12_500, (3, 3, 1)),
    ],
)
def test_the_turns_of_dqn_are_whole_and_so_are_the_pauses_between_them(argv, per_turn, turns, rhythm, tmp_path):
    run = built(tmp_path, "Catch", "--no-preset", "--learning-starts", "100", *argv, algorithm="dqn")
    assert (run.updates_per_turn, run.num_turns, tuple(run.rhythm)) == (per_turn, turns, rhythm)
    assert run.last_step == turns * per_turn * run.options.num_envs
    assert run.choices["updates_per_turn"] == per_turn


def test_turns_on_the_host_are_shorter(tmp_path):
    assert built(tmp_path, "gym:CartPole-v1", algorithm="dqn").steps_per_turn == 100
    for name in ("ppo", "impala"):
        assert built(tmp_path, "Catch", algorithm=name).updates_per_turn == 1


def test_what_may_be_none_is_typed_as_none(tmp_path):
    file = tmp_path / "my.toml"
    file.write_text("target_kl = 0.1\ncheckpoint_every = 3\n")
    assert told("Catch", "--config", str(file))["target_kl"] == 0.1
    assert told("Catch", "--config", str(file), "--target-kl", "none", "--checkpoint-every", "none")["target_kl"] is None


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["trian"], "no command 'trian'. Did you mean 'train'?"),
        (["train"], "no algorithm is given"),
        (["train", "pop", "CartPole"], "no algorithm 'pop'. Did you mean 'ppo'?"),
        (["train", "bc", "CartPole"], "bc learns from other runs. Type: rl4jax bc RUN"),
        (["train", "ppo"], "no environment is given"),
        (["train", "ppo", "CartPol"], "no environment 'CartPol'. Did you mean 'CartPole'?"),
        (["train", "ppo", "CartPole-v1"], "type gym:CartPole-v1"),
        (["train", "ppo", "gym:CartPoll-v1"], "Did you mean 'gym:CartPole-v1'?"),
        (["train", "ppo", "gym:ALE/Pong-v5"], "It comes with an extra of rl4jax: pip install 'rl4jax[atari]'"),
        (["train", "ppo", "CartPole", "--gama", "1"], "no flag '--gama'. Did you mean '--gamma'?"),
        (["train", "ppo", "CartPole", "Catch"], "no further argument 'Catch'"),
        (["train", "ppo", "CartPole", "--gamma", "2"], "gamma = 2.0 must be in [0, 1]"),
        (["train", "ppo", "CartPole", "--gamma", "x"], "Error parsing --gamma"),
        (["train", "ppo", "CartPole", "--lr", "linear(1)"], "must be a number or linear(START, END)"),
        (["train", "ppo", "CartPole", "--num-minibatches", "7"], "must divide num_steps * num_envs = 512. Choose one of [1, 2, 4"),
        (["train", "ppo", "CartPole", "--core", "lstm", "--num-minibatches", "8"], "whole environments) = 4"),
        (["train", "ppo", "CartPole", "--total-steps", "10"], "less than one rollout"),
        (["train", "ppo", "CartPole", "--activation", "rellu"], "Did you mean 'relu'?"),
        (["train", "ppo", "CartPole", "--config", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["train", "dqn"], "rl4jax train dqn: no environment is given"),
        (["train", "dqn", "CartPole", "--clip-eps", "1"], "rl4jax train dqn: there is no flag '--clip-eps'"),
        (["train", "dqn", "CartPole", "--buffer-size", "9"], "Did you mean '--capacity'?"),
        (["train", "dqn", "CartPole", "--exploration-fraction", "9"], "Did you mean '--epsilon'?"),
        (["train", "dqn", "CartPole", "--start-e", "1"], "Did you mean '--epsilon'?"),
        (["train", "dqn", "CartPole", "--train-freq", "9"], "Did you mean '--num-steps'?"),
        (["train", "dqn", "CartPole", "--target-network-frequency", "9"], "Did you mean '--target-every'?"),
        (["train", "dqn", "CartPole", "--epsilon", "linear(1, 0, 5, 6)"], "linear(START, END, LENGTH)"),
        (["train", "dqn", "CartPole", "--epsilon", "2"], "dqn.Config.epsilon = 2.0 must be in [0, 1]"),
        (["train", "dqn", "CartPole", "--target-every", "0"], "--target-every = 0 must be a positive integer"),
        (["train", "dqn", "CartPole", "--total-steps", "500"], "--learning-starts = 1000 must be at most 500"),
        (["train", "dqn", "CartPole", "--total-steps", "100", "--updates-per-turn", "500"], "less than one turn"),
        (["train", "dqn", "CartPole", "--disk-replay"], "--disk-replay is for environments on the host"),
        (["train", "dqn", "Pendulum"], "they must be Discrete"),
        (["train", "impala", "CartPole", "--n-epochs", "3"], "there is no flag '--n-epochs'"),
        (["train", "impala", "CartPole", "--entropy-coeff", "3"], "Did you mean '--ent-coef'?"),
        (["bc"], "rl4jax bc: no run is given"),
        (["bc", "nowhere"], "nowhere does not exist"),
        (["bc", "nowhere", "elsewhere"], "For several: rl4jax distill"),
        (["bc", "nowhere", "--n-epochs", "3"], "Did you mean '--epochs'?"),
        (["bc", "nowhere", "--core", "lstm"], "there is no flag '--core'"),
        (["distill"], "rl4jax distill: no run is given"),
        (["distill", "nowhere", "--temperature", "0"], "nowhere does not exist"),
        (["resume", "nowhere"], "nowhere does not exist"),
        (["eval", "nowhere"], "nowhere does not exist"),
        (["eval", "nowhere", "--episode", "3"], "Did you mean '--episodes'?"),
        (["record", "nowhere"], "nowhere does not exist"),
        (["plot", "nowhere"], "nowhere does not exist"),
        (["plot"], "no run is given"),
        (["envs", "--all"], "no flag '--all'"),
    ],
    ids=" ".join,
)
def test_bad_input_is_explained_in_a_sentence_and_leaves_nothing(argv, sentence, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    assert sentence in refused(capsys, *argv)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gama = 1", "no setting 'gama'. Did you mean 'gamma'?"),
        ("gamma = 'x'", "gamma = 'x' must be a number"),
        ("num_envs = 2.5", "num_envs = 2.5 must be an integer"),
        ("shared = 1", "shared = 1 must be true or false"),
        ("hidden = 64", "hidden = 64 must be a list of positive integers"),
        ("core = 'rnn'", "core = 'rnn' must be one of none, lstm, gru"),
        ("lr = true", "must be a number or linear"),
        ("gamma = ", "is not TOML"),
    ],
)
def test_a_bad_file_is_explained(text, sentence, capsys, tmp_path):
    file = tmp_path / "my.toml"
    file.write_text(text)
    assert sentence in refused(capsys, "train", "ppo", "CartPole", "--config", str(file))


def test_help_shows_the_values_of_the_preset(capsys, monkeypatch):
    monkeypatch.setitem(presets.PPO, "Catch", {"gamma": 0.123})
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as exit_:
        main(["train", "ppo", "Catch", "--help"])
    text = capsys.readouterr().out
    assert exit_.value.code == 0
    assert "(default: 0.123)" in text


def test_help_does_not_wait_for_jax():
    program = "import sys; from rl4jax.cli.main import main; main(['--help']); print('jax' in sys.modules, 'matplotlib' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert answer.stdout.splitlines()[-1] == "False False", answer.stderr
