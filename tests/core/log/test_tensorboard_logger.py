"""TensorBoardLogger: TensorBoard's own reader finds what was logged."""

import math
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rl4jax.core.log import TensorBoardLogger


def read(directory) -> EventAccumulator:
    return EventAccumulator(str(directory), size_guidance={"scalars": 0, "tensors": 0, "histograms": 0}).Reload()


def scalars(directory, key: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in read(directory).Scalars(key)]


def test_scalars_are_read_back(tmp_path):
    with TensorBoardLogger(tmp_path / "new" / "run") as logger:
        for step in range(0, 100, 10):
            logger.log_scalar("train/loss", step / 2, step)
        logger.log_metrics({"train/kl": 0.25, "train/entropy": jnp.array(0.5)}, 7)
        logger.log_scalars("return", {"min": -1.0, "max": 2.0}, 8)
    events = read(tmp_path / "new" / "run")
    assert sorted(events.Tags()["scalars"]) == ["return/max", "return/min", "train/entropy", "train/kl", "train/loss"]
    assert [(event.step, event.value) for event in events.Scalars("train/loss")] == [(step, step / 2) for step in range(0, 100, 10)]
    assert scalars(tmp_path / "new" / "run", "train/entropy") == [(7, 0.5)]
    assert scalars(tmp_path / "new" / "run", "return/min") == [(8, -1.0)]


def test_nan_and_infinity_are_read_back(tmp_path):
    with TensorBoardLogger(tmp_path) as logger:
        for step, value in enumerate((math.nan, math.inf, -math.inf)):
            logger.log_scalar("a", value, step)
    assert str(scalars(tmp_path, "a")) == "[(0, nan), (1, inf), (2, -inf)]"


def test_text_is_read_back(tmp_path):
    text = 'quotes " and\nlines, ünïcödé'
    with TensorBoardLogger(tmp_path) as logger:
        logger.log_text("info", text, 3)
    (event,) = read(tmp_path).Tensors("info/text_summary")
    assert event.step == 3
    assert event.tensor_proto.string_val[0].decode() == text


def test_histograms_are_read_back(tmp_path):
    values = np.linspace(-1.0, 3.0, 1000)
    with TensorBoardLogger(tmp_path) as logger:
        logger.log_histogram("weights", values, 5)
    (event,) = read(tmp_path).Histograms("weights")
    histogram = event.histogram_value
    assert (event.step, histogram.num, histogram.min, histogram.max) == (5, 1000, -1.0, 3.0)
    assert histogram.sum == pytest.approx(values.sum())
    assert sum(histogram.bucket) == 1000
    middle = np.searchsorted(histogram.bucket_limit, 1.0)
    assert sum(histogram.bucket[: middle + 1]) == pytest.approx(500, abs=20)


def test_a_histogram_leaves_out_what_is_not_finite(tmp_path):
    with TensorBoardLogger(tmp_path) as logger:
        logger.log_histogram("weights", [1.0, math.nan, 2.0, math.inf], 0)
        with pytest.warns(RuntimeWarning, match="TensorBoardLogger failed"):
            logger.log_histogram("weights", [math.nan], 1)
    (event,) = read(tmp_path).Histograms("weights")
    assert event.histogram_value.num == 2


def test_flushed_records_can_be_read_while_the_run_goes_on(tmp_path):
    with TensorBoardLogger(tmp_path) as logger:
        for step in range(50):
            logger.log_scalar("a", 1.0, step)
        logger.flush()
        assert len(scalars(tmp_path, "a")) == 50


def test_two_loggers_in_one_directory_do_not_erase_each_other(tmp_path):
    with TensorBoardLogger(tmp_path) as first, TensorBoardLogger(tmp_path) as second:
        first.log_scalar("a", 1.0, 0)
        second.log_scalar("b", 2.0, 0)
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 2


def test_a_program_that_forgets_to_close_loses_nothing(tmp_path):
    code = "import sys; from rl4jax.core.log import TensorBoardLogger; log = TensorBoardLogger(sys.argv[1]); log.log_scalar('a', 1.0, 0)"
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
    assert scalars(tmp_path, "a") == [(0, 1.0)]
