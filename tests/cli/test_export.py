"""`rl4jax export RUN`: what it writes plays as the run does."""

import json
import shutil

import numpy as np
import pytest

from rl4jax import deploy
from rl4jax.cli import load_policy
from rl4jax.cli.main import main
from rl4jax.deploy import run as play_command
from tests.cli.terminal import TINY


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "pendulum"
    flags = ["--normalize-obs", "--core", "gru", "--total-steps", "64", "--out", str(path), "--quiet", "--json"]
    assert main(["train", "ppo", "Pendulum", *TINY, *flags]) == 0
    return path


def test_a_run_becomes_a_bundle_that_acts_alike(run, capsys):
    assert main(["export", str(run), "--episodes", "2"]) == 0
    said = capsys.readouterr().out
    assert f"{run}/bundle: return " in said
    assert "rl4jax serve" in said
    config = json.loads((run / "bundle" / "config.json").read_text())
    assert (config["algorithm"], config["env"], config["evaluation"]["episodes"], config["evaluation"]["greedy"]) == (
        "ppo",
        "Pendulum",
        2,
        True,
    )
    assert len(config["normalisation"]["mean"]["obs"]) == 3
    assert config["value"] == "expected discounted return, of rewards divided by their running spread"
    assert (run / "bundle" / "replay.gif").stat().st_size > 1000
    theirs, ours = deploy.load(run / "bundle"), load_policy(run)
    carry = our_carry = None
    for obs in np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32):
        action, carry = theirs(obs, carry)
        our_action, our_carry = ours(obs, our_carry)
        np.testing.assert_allclose(action, our_action, rtol=1e-5, atol=1e-6)


def test_what_may_be_wrong_is_said_before_the_work(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("rl4jax.collect.evaluation.evaluate", lambda *_, **__: pytest.fail("the work began"))
    (tmp_path / "index.html").write_text("mine")
    for web, said in [(tmp_path, "holds index.html, not those of a page"), (tmp_path / "out", "must be another folder")]:
        assert main(["export", str(run), "--out", str(tmp_path / "out"), "--web", str(web)]) == 2
        assert said in capsys.readouterr().err


def test_a_policy_that_samples(run, tmp_path):
    assert main(["export", str(run), "--sample", "--episodes", "2", "--out", str(tmp_path / "bundle")]) == 0
    assert "over 2 sampled episodes" in (tmp_path / "bundle" / "README.md").read_text()
    actions = [deploy.load(tmp_path / "bundle", seed=seed)(np.zeros(3))[0].item() for seed in (0, 0, 1)]
    assert actions[0] == actions[1]
    assert actions[0] != actions[2]


def test_episodes_are_played_from_a_shell(run, capsys):
    assert main(["export", str(run), "--episodes", "2"]) == 0
    capsys.readouterr()
    assert play_command.main([str(run / "bundle"), "--episodes", "2", "--env", "gym:Pendulum-v1"]) == 0
    assert capsys.readouterr().out.startswith("gym:Pendulum-v1 on onnxruntime: return -")
    assert play_command.main([str(run / "bundle"), "--env", "gym:Nothing-v1"]) == 2
    assert "--env gym:Nothing-v1 cannot be made" in capsys.readouterr().err


def test_what_the_page_cannot_play_is_said_before_the_work(tmp_path, capsys):
    path = tmp_path / "memory"
    assert main(["train", "ppo", "Memory", *TINY, "--total-steps", "64", "--out", str(path), "--quiet", "--json"]) == 0
    assert main(["export", str(path), "--web", str(tmp_path / "page")]) == 2
    assert "The page cannot play 'Memory'" in capsys.readouterr().err
    assert not (path / "bundle").exists()


def test_no_run_is_written_over(run, tmp_path, capsys):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert main(["export", str(run), "--out", str(run)]) == 2
    assert f"{run} holds config.json, checkpoints, not those of a bundle" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_mistakes(run, tmp_path, capsys):
    assert main(["export", str(tmp_path / "nowhere")]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert main(["export", str(run), "--episodes", "0"]) == 2
    assert "--episodes = 0 must be a positive integer" in capsys.readouterr().err
    empty = shutil.copytree(run, tmp_path / "empty", ignore=shutil.ignore_patterns("checkpoints"))
    assert main(["export", str(empty)]) == 2
    assert "has no latest checkpoint yet" in capsys.readouterr().err
