"""Dreamer on the command line: a small run, what is left of it, and pictures of what it imagines."""

import json
import re

import numpy as np
import pytest
from PIL import Image

import rl4jax as rl
from rl4jax.cli import load_policy, load_run, training
from rl4jax.cli.main import main
from tests.cli.terminal import TINY as TINY_PPO, TINY_DREAMER

TINY = (*TINY_DREAMER, "--quiet")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "dreamer"
    assert main(["train", "dreamer", "CartPole", *TINY, "--total-steps", "160", "--out", str(path)]) == 0
    return path


def test_a_run_holds_all_that_is_needed(run):
    result = json.loads((run / "result.json").read_text())
    assert (result["steps"], result["env"], result["skipped_updates"]) == (160, "CartPole", 0)
    _, state = load_run(run).need()
    assert int(state.num_gradient_steps) > 0
    action, carry = load_policy(run)(np.zeros(4, np.float32))
    assert action in (0, 1)
    assert load_policy(run)([0.0, 0.0, 0.0, 0.0])[0] == action
    load_policy(run)(np.zeros(4, np.float32), carry)


def test_what_it_imagines_is_shown_below_what_happened(run, tmp_path, capsys):
    assert main(["record", str(run), "--imagine", "--max-steps", "8", "--out", str(tmp_path / "a.gif")]) == 0
    assert "8 frames" in capsys.readouterr().out
    single = rl.envs.CartPole()
    height, width, _ = single.render(single.state_from_obs(np.zeros(4, np.float32))).shape
    with Image.open(tmp_path / "a.gif") as picture:
        assert picture.size == (width, 2 * height + 20)


def test_only_a_world_model_imagines(tmp_path, capsys):
    path = tmp_path / "ppo"
    assert main(["train", "ppo", "CartPole", *TINY_PPO, "--total-steps", "64", "--quiet", "--out", str(path)]) == 0
    assert main(["record", str(path), "--imagine"]) == 2
    assert "is a run of ppo, which has no world model" in capsys.readouterr().err


def test_the_doctor_sees_all_networks(run, capsys):
    assert main(["doctor", str(run), "--json"]) in (0, 1)  # below the free nats some gradients are zero
    report = json.loads(capsys.readouterr().out)
    assert {"encoder", "rssm", "policy", "value"} <= {row["name"].partition(".")[0] for row in report["gradients"]}


def test_no_more_is_remembered_than_the_run_can_fill(tmp_path):
    path = tmp_path / "run"
    assert main(["train", "dreamer", "CartPole", *TINY, "--total-steps", "160", "--capacity", "900_000", "--out", str(path)]) == 0
    run = load_run(path)
    assert run.cfg.capacity == 2 * 160 + 1000 * run.options.num_envs
    assert run.need()[1].replay.num_streams * run.need()[1].replay.capacity == run.cfg.capacity


def test_a_run_that_does_not_fit_into_memory_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(training, "available_memory", lambda: 1_000_000)
    assert main(["train", "dreamer", "CartPole", *TINY, "--total-steps", "160", "--out", str(tmp_path / "run")]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert re.search(
        r"Dreamer on CartPole takes \d+\.\d GB of memory, .* and 0.0 GB are free here\. .* give a smaller --capacity", message
    ), message
    assert not (tmp_path / "run").exists()


def test_what_was_exported_is_no_run(run, tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"format": "rl4jax-policy", "algorithm": "dreamer"}')
    assert main(["eval", str(tmp_path)]) == 2
    assert "is of an exported policy, not of a run" in " ".join(capsys.readouterr().err.split())
