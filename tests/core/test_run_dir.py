"""RunDir: keep the newest and the best, survive damage and kill -9, refuse a second writer."""

import json
import math
import os
import signal
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax.core.atomic import _TOKEN
from rl4jax.core.checkpoint import load, read_metadata, save
from rl4jax.core.errors import CheckpointError, ConfigError
from rl4jax.core.run_dir import RunDir


def tree(step):
    return {"w": np.full(4, step, np.float32), "step": int(step)}


LIKE = tree(0)


def files(run):
    return sorted(os.listdir(run.path / "checkpoints"))


def damage(path):
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)


def test_a_new_run_has_nothing_and_creates_nothing(tmp_path):
    run = RunDir(tmp_path / "run")
    assert (run.steps(), run.latest(LIKE), run.best(LIKE)) == ([], None, None)
    assert not run.path.exists()


def test_the_newest_keep_checkpoints_stay(tmp_path):
    run = RunDir(tmp_path / "run", keep=2)
    for step in (5, 70, 71, 12345):
        path = run.save(step, tree(step), metadata={"note": "x"})
    assert path == tmp_path / "run" / "checkpoints" / "step_000000012345.safetensors"
    assert files(run) == ["step_000000000071.safetensors", "step_000000012345.safetensors"]
    assert run.steps() == [71, 12345]
    assert read_metadata(path) == {"note": "x", "step": 12345}
    step, newest = run.latest(LIKE)
    assert (step, newest["step"], newest["w"].tolist()) == (12345, 12345, [12345.0] * 4)


def test_steps_are_ordered_as_numbers_however_large(tmp_path):
    run = RunDir(tmp_path)
    for step in (10**12 - 1, 10**12, 10**13):
        run.save(step, tree(0))
    assert run.steps() == [10**12 - 1, 10**12, 10**13]


def test_a_step_may_be_saved_again_and_may_be_an_array(tmp_path):
    run = RunDir(tmp_path, keep=1)
    run.save(jnp.asarray(3), tree(1))
    run.save(np.int64(3), tree(2))
    assert run.latest(LIKE)[1]["step"] == 2


def test_bad_arguments_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"RunDir.keep = 0 must be a positive integer"):
        RunDir(tmp_path, keep=0)
    for write in (RunDir(tmp_path).save, lambda step, x: RunDir(tmp_path).save_best(step, x, 1.0)):
        with pytest.raises(ConfigError, match=r"step = -1 must be zero or positive"):
            write(-1, tree(0))
    for name in ("config", "../config.json", "a/b.json", "/config.json"):
        with pytest.raises(ConfigError, match=r"a file name ending in \.json, without folders"):
            RunDir(tmp_path).write_json(name, {})


def test_the_best_is_replaced_only_by_a_greater_score(tmp_path):
    run = RunDir(tmp_path, keep=1)
    scores = [math.nan, -math.inf, -5.0, -5.0, math.nan, jnp.asarray(2.5), 1, np.float32(3)]
    assert [run.save_best(step, tree(step), score) for step, score in enumerate(scores)] == [
        False,
        True,
        True,
        False,
        False,
        True,
        False,
        True,
    ]
    for step in range(8, 12):
        run.save(step, tree(step))
    assert files(run) == ["best.safetensors", "step_000000000011.safetensors"]
    step, best = RunDir(tmp_path).best(LIKE)
    assert (step, best["step"]) == (7, 7)
    assert read_metadata(run.best_path) == {"step": 7, "score": 3.0}


def test_a_damaged_best_is_an_error_to_read_and_is_replaced_with_a_warning(tmp_path):
    run = RunDir(tmp_path)
    run.save_best(1, tree(1), 10.0)
    damage(run.best_path)
    with pytest.raises(CheckpointError, match="checksum"):
        run.best(LIKE)
    with pytest.warns(RuntimeWarning, match=r"best\.safetensors is damaged"):
        assert run.save_best(2, tree(2), 1.0)
    assert run.best(LIKE)[0] == 2


def test_a_best_of_someone_else_is_not_replaced(tmp_path):
    run = RunDir(tmp_path)
    save(run.best_path, tree(1))
    for use in (lambda: run.best(LIKE), lambda: run.save_best(1, tree(1), 5.0)):
        with pytest.raises(CheckpointError, match=r"has no '(step|score)' in its metadata.*Move it away"):
            use()


@pytest.mark.parametrize("hurt", [damage, lambda path: path.write_bytes(path.read_bytes()[:-1]), lambda path: path.write_bytes(b"")])
def test_behind_a_damaged_newest_the_one_before_is_used_with_a_warning(hurt, tmp_path):
    run = RunDir(tmp_path)
    for step in (1, 2, 3):
        run.save(step, tree(step))
    for step in (2, 3):
        hurt(run.step_path(step))
    with pytest.warns(RuntimeWarning) as caught:
        step, newest = run.latest(LIKE)
    assert (step, newest["step"]) == (1, 1)
    assert [f"step_00000000000{n}.safetensors" in str(warning.message) for n, warning in zip((3, 2), caught, strict=True)] == [True, True]
    assert "goes back to step 1" in str(caught[0].message)


def test_a_run_goes_on_after_damage_without_losing_what_it_saves(tmp_path):
    run = RunDir(tmp_path, keep=1)
    run.save(5, tree(5))
    RunDir(tmp_path, keep=2).save(9, tree(9))
    damage(run.step_path(9))
    with pytest.warns(RuntimeWarning, match="goes back to step 5"):
        run.latest(LIKE)
    run.save(6, tree(6))  # no warning: step 9 is known to be damaged
    with pytest.warns(RuntimeWarning, match="goes back to step 6"):
        assert RunDir(tmp_path).latest(LIKE)[0] == 6
    run.save(10, tree(10))
    assert run.steps() == [10]


def test_if_none_can_be_read_all_reasons_are_listed(tmp_path):
    run = RunDir(tmp_path)
    for step in (1, 2):
        run.save(step, tree(step))
    damage(run.step_path(1))
    run.step_path(2).write_bytes(b"")
    with pytest.raises(
        CheckpointError, match=r"(?s)No checkpoint .*000002\.safetensors is not a.*000001\.safetensors is damaged.*checksum"
    ):
        run.latest(LIKE)


def test_a_tree_that_does_not_fit_raises_instead_of_going_back(tmp_path):
    run = RunDir(tmp_path)
    run.save(1, {"w": np.zeros(3)})
    run.save(2, tree(2))
    with pytest.raises(CheckpointError, match=r"differs: w is float32\[4\] in the file and float64\[3\]"):
        run.latest({"w": np.zeros(3)})


def test_a_later_checkpoint_of_another_run_is_warned_about_once_and_left_alone(tmp_path):
    RunDir(tmp_path).save(100, tree(100))
    run = RunDir(tmp_path, keep=1)
    with pytest.warns(RuntimeWarning, match="also has step 100, after step 1 just saved"):
        run.save(1, tree(1))
    run.save(2, tree(2))
    assert run.steps() == [2, 100]


def test_other_files_are_no_checkpoints_and_stay(tmp_path):
    run = RunDir(tmp_path, keep=1)
    run.save(1, tree(1))
    names = ["step_1.safetensors", "step_000000000009.safetensors.bak", ".step_000000000009.safetensors", "notes.part"]
    for name in names:
        (tmp_path / "checkpoints" / name).write_text("x")
    run.save(2, tree(2))
    assert run.steps() == [2]
    assert set(names) < set(files(run))


def test_json_comes_back_and_damage_is_named(tmp_path):
    run = RunDir(tmp_path / "run")
    config = {"lr": 3e-4, "layers": [64, 64], "name": "ünï\ud800", "none": None, "inf": math.inf}
    run.write_json("config.json", config)
    assert run.read_json("config.json") == config
    run.write_json("versions.json", {"jax": np.float32(1.5)})
    assert run.read_json("versions.json") == {"jax": 1.5}
    assert sorted(os.listdir(run.path)) == ["config.json", "versions.json"]
    whole = (run.path / "config.json").read_bytes()
    for damaged in (b"", whole[:-3], b"\xff" + whole, b"[" * 100_000):
        (run.path / "config.json").write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"config\.json is damaged, or not JSON"):
            run.read_json("config.json")
    with pytest.raises(CheckpointError, match=r"none\.json cannot be read"):
        run.read_json("none.json")
    with pytest.raises(TypeError, match=r"bad\.json cannot be written as JSON: it holds <built-in function print>"):
        run.write_json("bad.json", {"f": print})


def test_unfinished_files_of_dead_processes_are_swept_and_others_stay(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    run = RunDir(tmp_path)
    run.save(1, tree(1))
    swept = [f".step_000000000002.safetensors.{dead.pid}-0123abcd-1.part", f".best.safetensors.{os.getpid()}-0123abcd-1.part"]
    stays = [f".step_000000000002.safetensors.{os.getppid()}-0123abcd-1.part", f".best.safetensors.{os.getpid()}-{_TOKEN}-1.part"]
    for name in swept + stays:
        (tmp_path / "checkpoints" / name).write_bytes(b"half")
    run.save(2, tree(2))
    assert files(run) == sorted([*stays, "step_000000000001.safetensors", "step_000000000002.safetensors"])


SAVES_FOR_EVER = """
import itertools, os, sys, warnings
import numpy as np
from rl4jax.core.run_dir import RunDir

warnings.simplefilter("ignore")  # JAX dislikes forks, but has not started here
for line in sys.stdin:  # each line asks for a child that saves for ever; forked, because imports take seconds
    if pid := os.fork():
        print(pid, flush=True)
        os.waitpid(pid, 0)
        print("dead", flush=True)
    else:
        run = RunDir(sys.argv[1], keep=2)
        with run.lock():
            for step in itertools.count(int(line)):
                tree = {"w": np.full(50_000, step, np.float32), "step": step}
                run.save(step, tree)
                run.save_best(step, tree, step)
"""


@pytest.fixture
def saver(tmp_path):
    program = [sys.executable, "-c", SAVES_FOR_EVER, str(tmp_path / "run")]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()


def start_saving(saver, run, step):
    """The pid of a process that has saved this step and goes on."""
    saver.stdin.write(f"{step}\n")
    saver.stdin.flush()
    pid = int(saver.stdout.readline())
    deadline = time.time() + 60
    while max(run.steps(), default=-1) < step and time.time() < deadline:
        time.sleep(0.001)
    return pid


def kill(saver, pid):
    os.kill(pid, signal.SIGKILL)
    assert saver.stdout.readline() == "dead\n"


def test_after_kill_9_at_any_moment_every_visible_checkpoint_is_whole(tmp_path, saver):
    run, like, newest = RunDir(tmp_path / "run"), {"w": np.zeros(50_000, np.float32), "step": 0}, 0
    for wait in np.random.default_rng().uniform(0, 0.1, 10):
        pid = start_saving(saver, run, newest + 1)
        time.sleep(wait)
        kill(saver, pid)
        steps = run.steps()
        for path in [*map(run.step_path, steps), *([run.best_path] if run.best_path.exists() else [])]:
            whole = load(path, like)
            assert (whole["w"] == whole["step"]).all()
        found, tree = run.latest(like)
        assert found == tree["step"] == steps[-1] > newest
        newest = found
    run.save(newest + 1, like)
    assert len(run.steps()) == run.keep
    assert not [name for name in files(run) if name.endswith(".part")]


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path, saver):
    run = RunDir(tmp_path / "run")
    pid = start_saving(saver, run, 1)
    with pytest.raises(CheckpointError, match=f"run is in use by process {pid}. Wait for it, or use another folder"), run.lock():
        pass
    kill(saver, pid)
    with run.lock():
        pass


def test_a_second_lock_of_the_same_process_is_refused_and_the_lock_ends_with_its_block(tmp_path):
    refused = pytest.raises(CheckpointError, match=f"in use by process {os.getpid()}")
    with RunDir(tmp_path).lock(), refused, RunDir(tmp_path).lock():
        pass
    with pytest.raises(KeyError), RunDir(tmp_path).lock():
        raise KeyError
    with RunDir(tmp_path).lock():
        assert json.loads((tmp_path / "lock").read_text()) == os.getpid()


def test_a_run_where_a_file_is_in_the_way_is_a_checkpoint_error(tmp_path):
    (tmp_path / "run").write_text("a file")
    run = RunDir(tmp_path / "run")
    assert run.latest(LIKE) is None
    for use in (
        lambda: run.save(1, LIKE),
        lambda: run.save_best(1, LIKE, 1.0),
        lambda: run.write_json("a.json", 1),
        lambda: run.lock().__enter__(),
    ):
        with pytest.raises(CheckpointError, match="cannot be written"):
            use()
