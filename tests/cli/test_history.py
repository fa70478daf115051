"""The log of a run, its signals and its curves, without training."""

import json
import signal

import numpy as np
import pytest

from rl4jax.cli.commands.plot import groups_of
from rl4jax.cli.curves import Curve, band_of, find_curve
from rl4jax.cli.history import forget_after, open_history
from rl4jax.cli.interrupts import Interrupts
from rl4jax.cli.tally import Tally
from rl4jax.core.errors import CheckpointError
from rl4jax.core.log.json_logger import JsonLogger
from tests.cli.terminal import in_tensorboard, logged


def write_log(path, steps):
    with JsonLogger(path / "log.jsonl") as log:
        for step in steps:
            log.log_metrics({"a": step / 2, "b": float("nan")}, step)


def test_later_steps_and_torn_lines_are_forgotten(tmp_path):
    write_log(tmp_path, [1, 2, 3])
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"type":"scalar","key":"a","val')
    forget_after(tmp_path / "log.jsonl", 2)
    counts, _ = logged(tmp_path)
    assert counts == {("a", 1): 1, ("b", 1): 1, ("a", 2): 1, ("b", 2): 1}


def test_tensorboard_is_made_anew_from_the_log(tmp_path):
    for step in (2, 3):  # the second time after step 4 was logged and lost
        with open_history(tmp_path, step, tensorboard=True) as log:
            for later in range(step + 1, 6):
                log.log_metrics({"a": later}, later)
    assert in_tensorboard(tmp_path) == logged(tmp_path)[0] == {("a", 3): 1, ("a", 4): 1, ("a", 5): 1}


def test_the_first_signal_is_a_wish_and_the_second_interrupt_is_an_order():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interrupts() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.signal == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_the_running_mean_is_that_of_the_neighbours():
    values = np.random.default_rng(0).normal(size=101)
    curve = Curve(np.arange(101), values).smoothed(share=0.1)
    for i in range(101):
        assert curve.values[i] == pytest.approx(values[max(i - 5, 0) : i + 6].mean())


def test_a_curve_of_few_points_is_not_smoothed():
    few = Curve(np.arange(49), np.random.default_rng(0).normal(size=49))
    assert few.smoothed() is few


def test_a_curve_that_is_not_there_is_said(tmp_path):
    with pytest.raises(CheckpointError, match="with points yet"):
        find_curve(tmp_path, "a")
    write_log(tmp_path, [1])
    with pytest.raises(CheckpointError, match=r"no metric 'c'.*Known: a\."):
        find_curve(tmp_path, "c")


def test_a_tally_survives_its_checkpoint_and_counts_compiling_apart():
    tally = Tally(episodes=2, return_sum=5.0, train_seconds=10.0, compile_seconds=1.0)
    for seconds in (7.0, 1.0, 1.0, 1.5):
        tally.add_seconds(seconds)
    tally.add_housekeeping(0.5)
    assert tally.seconds == (10 + 11 - 6, 1 + 6)
    again = Tally.from_metadata(json.loads(json.dumps(tally.metadata())))
    assert (again.episodes, again.return_sum, again.seconds) == (2, 5.0, (15, 7))
    assert again.take_line() == {"train/skipped": 0, "rollout/avg_return": 2.5, "rollout/avg_length": 0.0}
    assert again.take_line() == {"train/skipped": 0}


def test_values_that_are_no_numbers_are_no_points(tmp_path):
    lines = [
        '{"type":"scalar","key":"a","value":null,"step":1}',
        '{"type":"scalar","key":"a","value":2,"step":2}',
        '{"type":"scalar","step":3}',
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
    assert find_curve(tmp_path, "a").values.tolist() == [2.0]
    open_history(tmp_path, 3, tensorboard=True).close()


def test_a_band_is_the_mean_the_worst_and_the_best_where_all_have_points():
    band = band_of([Curve(np.array([0, 10, 20]), np.array([0.0, 1.0, 2.0])), Curve(np.array([5, 15]), np.array([3.0, 5.0]))])
    assert band.mean.steps.tolist() == [5, 10, 15]
    assert band.low.tolist() == [0.5, 1.0, 1.5]
    assert band.high.tolist() == [3.0, 4.0, 5.0]
    assert band.mean.values.tolist() == [1.75, 2.5, 3.25]


def test_runs_are_grouped_by_all_but_their_seed(tmp_path):
    for name, lr, seed in (("a", 0.1, 0), ("b", 0.1, 1), ("c", 0.2, 0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"lr": lr, "seed": seed}))
    groups = groups_of([tmp_path / name for name in "abc"])
    assert groups == {"lr = 0.1": [tmp_path / "a", tmp_path / "b"], "lr = 0.2": [tmp_path / "c"]}
