"""Runs that are killed, stopped or damaged go on as if nothing had happened: the same bits, every step logged once."""

import os
import random
import shutil
import signal
import time

import pytest

from rl4jax.cli import session
from rl4jax.cli.algorithms import ALGORITHMS
from rl4jax.cli.build import build_run
from rl4jax.cli.progress import Progress
from rl4jax.cli.settings import checked, defaults
from rl4jax.core.checkpoint import read
from rl4jax.core.run_dir import RunDir
from tests.cli.terminal import (
    STEPS_PER_TURN,
    STEPS_PER_UPDATE,
    TINY,
    TINY_DQN,
    TINY_DREAMER,
    assert_same_bits,
    in_tensorboard,
    logged,
    rl4jax,
    start,
)

OFTEN = ("--checkpoint-every", "1", "--log-every", "1", "--tensorboard", "--quiet")
FLAGS = (*TINY, *OFTEN)
PPO = ("train", "ppo", "CartPole", *FLAGS)
DQN = ("train", "dqn", "CartPole", *TINY_DQN, "--prioritized", "--n-step", "2", *OFTEN)

DREAMER = ("train", "dreamer", "CartPole", *TINY_DREAMER, "--updates-per-turn", "1", *OFTEN)


def train_whole(path, num_updates, command=PPO):
    code, _, err = rl4jax(*command, "--total-steps", num_updates * STEPS_PER_UPDATE, "--out", path)
    assert code == 0, err
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing interrupted."""
    return train_whole(tmp_path_factory.mktemp("runs") / "whole", num_updates=150)


def newest(run):
    return max(RunDir(run).steps(), default=-1)


def unfinished(run):
    return [name for name in os.listdir(run / "checkpoints") if name.endswith(".part")] if (run / "checkpoints").is_dir() else []


def wait_for(process, condition):
    deadline = time.monotonic() + 100
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.0005)


def kill(process, run, chance, in_write):
    """Once the process has trained: kill -9 at a random moment, or as soon as a checkpoint is being written. Whether it hit a write."""
    before = newest(run)
    wait_for(process, lambda: newest(run) > max(before, 0))
    if in_write:
        wait_for(process, lambda: unfinished(run))
    else:
        time.sleep(chance.uniform(0, 0.1))
    process.kill()
    process.communicate()
    for step in RunDir(run).steps():
        read(RunDir(run).step_path(step))  # raises if it is half-written
    return bool(unfinished(run))


def assert_nothing_happened(run, whole):
    assert_same_bits(run, whole)
    counts, values = logged(run)
    other_counts, others = logged(whole)
    assert counts == other_counts == in_tensorboard(run)
    assert set(counts.values()) == {1}
    assert values == pytest.approx(others, nan_ok=True)
    assert unfinished(run) == []


def killed_again_and_again(whole, run, num_updates, kills, hits, command=PPO):
    chance, landed, tries = random.Random(0), 0, 0
    process = start(*command, "--total-steps", num_updates * STEPS_PER_UPDATE, "--out", run)
    while tries < kills or landed < hits or tries - landed < kills // 2:
        landed += kill(process, run, chance, in_write=landed < hits and tries % 2 == 1)
        tries += 1
        process = start("resume", run, "--quiet")
    _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert_nothing_happened(run, whole)
    return tries, landed


def test_three_kills_change_nothing(whole, tmp_path):
    killed_again_and_again(whole, tmp_path / "run", num_updates=150, kills=3, hits=1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_twenty_kills_change_nothing(tmp_path):
    num_updates = 1500
    whole = train_whole(tmp_path / "whole", num_updates)
    tries, landed = killed_again_and_again(whole, tmp_path / "run", num_updates, kills=20, hits=5)
    assert tries >= 20
    assert landed >= 5
    assert tries - landed >= 10


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("command", [DQN, DREAMER], ids=["dqn", "dreamer"])
def test_eight_kills_change_nothing_of_what_is_remembered(command, tmp_path):
    assert STEPS_PER_TURN == STEPS_PER_UPDATE
    whole = train_whole(tmp_path / "whole", 300, command)
    tries, landed = killed_again_and_again(whole, tmp_path / "run", 300, kills=8, hits=2, command=command)
    assert tries >= 8
    assert landed >= 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_the_run_goes_on(number, whole, tmp_path):
    run = tmp_path / "run"
    flags = (*FLAGS, "--checkpoint-every", "1000", "--total-steps", 150 * STEPS_PER_UPDATE)  # the last word counts
    process = start("train", "ppo", "CartPole", *flags, "--out", run)
    wait_for(process, lambda: (run / "log.jsonl").exists() and (run / "log.jsonl").stat().st_size > 0)
    process.send_signal(number)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 128 + number
    assert "Traceback" not in err
    assert f"rl4jax resume {run}" in err
    assert 0 < newest(run) < 150 * STEPS_PER_UPDATE
    assert max(step for _, step in logged(run)[0]) == newest(run)
    if number == signal.SIGTERM:  # once is enough
        assert rl4jax("resume", run)[0] == 0
        assert_nothing_happened(run, whole)


def test_a_signal_after_the_housekeeping_of_an_update_is_saved_too(tmp_path, monkeypatch):
    house = session.keep_house

    def then_a_signal(*args):
        house(*args)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(session, "keep_house", then_a_signal)
    settings = {"env": "ProbeConstant", "num_steps": 8, "num_minibatches": 1, "update_epochs": 1, "hidden": (4,), "total_steps": 3200}
    ppo = ALGORITHMS["ppo"]
    run = build_run(ppo, defaults(ppo) | checked(ppo, settings, "test"), tmp_path / "run")
    outcome = session.train_session(run, Progress(quiet=True))
    assert outcome.signal == signal.SIGTERM
    assert run.directory.steps()[-1] == outcome.step == 32


def test_a_damaged_newest_checkpoint_is_reported_and_the_one_before_used(whole, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    last = RunDir(run).step_path(newest(run))
    last.write_bytes(last.read_bytes()[:-100])
    code, _, err = rl4jax("resume", run)
    assert code == 0
    assert "goes back to step" in err
    assert_nothing_happened(run, whole)


def test_a_run_killed_before_its_first_checkpoint_starts_from_the_beginning(whole, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(whole / "config.json", run)
    assert rl4jax("resume", run, "--quiet")[0] == 0
    assert_nothing_happened(run, whole)


def test_a_run_in_use_is_refused(whole, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    with RunDir(run).lock():
        code, _, err = rl4jax("resume", run)
    assert code == 2
    assert f"in use by process {os.getpid()}" in err
