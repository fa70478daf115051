"""The command line in processes of its own, and what the runs it leaves hold."""

import collections
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rl4jax.core.checkpoint import read
from rl4jax.core.run_dir import RunDir
from rl4jax.envs.probes import ProbeContext

ROOT = pathlib.Path(__file__).parents[2]
TINY = (
    "--num-envs", "2", "--num-steps", "8", "--hidden", "8", "--num-minibatches", "2", "--update-epochs", "1", "--eval-episodes", "4",
)  # fmt: skip
STEPS_PER_UPDATE = 16
TINY_IMPALA = ("--num-envs", "2", "--num-steps", "8", "--hidden", "8", "--eval-episodes", "4")
TINY_DQN = (
    "--num-envs", "2", "--updates-per-turn", "8", "--hidden", "8", "--capacity", "100", "--batch-size", "8", "--learning-starts", "24",
    "--lr", "0.01", "--epsilon", "linear(1, 0.1, 100)", "--eval-episodes", "4",
)  # fmt: skip
STEPS_PER_TURN = 16
TINY_DREAMER = (
    "--no-preset", "--size", "tiny", "--num-envs", "2", "--num-steps", "8", "--batch-size", "2", "--length", "8", "--capacity", "400",
    "--learning-starts", "40", "--train-ratio", "2", "--imagine-steps", "3", "--eval-episodes", "2",
)  # fmt: skip


def continuous_probe():
    """An environment that is quickly over, typed `tests.cli.terminal:continuous_probe`."""
    return ProbeContext(actions="continuous")


def start(*args, cwd=None):
    environment = {
        name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "PYTHONUNBUFFERED") and not name.startswith("JAX_")
    }
    cache = {"JAX_COMPILATION_CACHE_DIR": str(ROOT / ".jax_cache"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    return subprocess.Popen(
        [sys.executable, "-m", "rl4jax.cli", *map(str, args)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env={**environment, **cache, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
    )  # fmt: skip


def rl4jax(*args, cwd=None, timeout=120):
    """Run a command to its end: (exit code, stdout, stderr)."""
    process = start(*args, cwd=cwd)
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert "Traceback" not in err, err
    return process.returncode, out, err


def final_tensors(run):
    """Every array of the newest checkpoint: weights, optimizer, environments, key."""
    directory = RunDir(run)
    return read(directory.step_path(directory.steps()[-1])).tensors


def assert_same_bits(run, other):
    ours, theirs = final_tensors(run), final_tensors(other)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def logged(run):
    """How often each (key, step) stands in log.jsonl, and its value."""
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    counts = collections.Counter((record["key"], record["step"]) for record in records)
    return counts, {(record["key"], record["step"]): float(record["value"]) for record in records}


def in_tensorboard(run):
    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return collections.Counter((key, event.step) for key in events.Tags()["scalars"] for event in events.Scalars(key))
