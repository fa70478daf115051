"""Flags, presets and TOML files: every setting has a name, the later source wins, and what is unknown gets a suggestion."""

import dataclasses
import subprocess
import sys

import pytest

from rl4jax.algo import ppo
from rl4jax.cli import presets, settings
from rl4jax.cli.commands.train import read_settings
from rl4jax.cli.main import main
from rl4jax.cli.options import Options
from rl4jax.cli.run import build_run
from rl4jax.core.schedule import Linear


def told(*argv):
    return read_settings(argv)[1]


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


OTHER = {
    "lr": "0.5", "gamma": "0.5", "gae_lambda": "0.5", "clip_eps": "0.5", "vf_coef": "0.25", "ent_coef": "0.5", "update_epochs": "7",
    "num_minibatches": "8", "num_steps": "64", "max_grad_norm": "3", "adam_eps": "0.1", "target_kl": "0.5", "dual_clip_coef": "3",
}  # fmt: skip


@pytest.mark.parametrize("field", dataclasses.fields(ppo.Config), ids=lambda field: field.name)
def test_every_field_of_the_config_is_a_flag(field):
    flag = field.name.replace("_", "-")
    words = [f"--{flag}", OTHER[field.name]] if field.name in OTHER else [f"--no-{flag}" if field.default else f"--{flag}"]
    changed, usual = told("Pendulum", "--no-preset", *words), told("Pendulum", "--no-preset")
    assert usual[field.name] == field.default
    assert changed[field.name] == (float(OTHER[field.name]) if field.name in OTHER else not field.default)
    assert {name for name in usual if usual[name] != changed[name]} == {field.name}


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


def test_every_preset_is_a_valid_run(tmp_path):
    for env, preset in presets.PPO.items():
        found = settings.defaults() | settings.checked(preset, env) | {"env": env.replace("gym:LunarLander-v3", "gym:CartPole-v1")}
        build_run(found, tmp_path)


def test_a_linear_learning_rate_ends_with_the_run(tmp_path):
    run = build_run(told("Catch", "--no-preset", "--lr", "linear(1e-3,0)", "--total-steps", "2048", "--num-envs", "4"), tmp_path)
    assert run.cfg.lr == Linear(1e-3, 0.0, 4.0)


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
        (["train", "ppo"], "no environment is given"),
        (["train", "ppo", "CartPol"], "no environment 'CartPol'. Did you mean 'CartPole'?"),
        (["train", "ppo", "CartPole-v1"], "type gym:CartPole-v1"),
        (["train", "ppo", "gym:CartPoll-v1"], "Did you mean 'gym:CartPole-v1'?"),
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


def test_help_shows_the_values_of_the_preset_and_a_text_for_every_option(capsys, monkeypatch):
    monkeypatch.setitem(presets.PPO, "Catch", {"gamma": 0.123})
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as exit_:
        main(["train", "ppo", "Catch", "--help"])
    text = capsys.readouterr().out
    assert exit_.value.code == 0
    assert "(default: 0.123)" in text
    assert settings.comments(Options).keys() == {field.name for field in dataclasses.fields(Options)}


def test_help_does_not_wait_for_jax():
    program = "import sys; from rl4jax.cli.main import main; main(['--help']); print('jax' in sys.modules, 'matplotlib' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert answer.stdout.splitlines()[-1] == "False False", answer.stderr
