"""PrintLogger: what lines look like, and which are left out."""

import io

import pytest

from rl4jax.core.errors import ConfigError
from rl4jax.core.log import PrintLogger


def printed(every: int, *steps: int) -> list[int]:
    stream = io.StringIO()
    logger = PrintLogger(every, stream)
    for step in steps:
        logger.log_scalar("a", 1.0, step)
    return [int(line.split("]")[0].removeprefix("[step ")) for line in stream.getvalue().splitlines()]


def test_lines_go_to_the_stderr_of_the_moment(capsys):
    logger = PrintLogger()
    logger.log_scalar("train/loss", 0.42, 5000)
    logger.log_metrics({"train/loss": 0.42, "train/entropy": 0.69}, 5000)
    logger.log_scalars("return", {"min": 1.0, "max": 2.5}, 5001)
    logger.log_text("info", "training started", 5001)
    logger.log_histogram("weights", [1.0], 5001)
    logger.close()
    assert capsys.readouterr().err.splitlines() == [
        "[step 5000] train/loss: 0.4200",
        "[step 5000] train/loss: 0.4200  train/entropy: 0.6900",
        "[step 5001] return/min: 1.0000  return/max: 2.5000",
        "[step 5001] info: training started",
    ]


def test_zero_prints_every_step():
    assert printed(0, 0, 1, 1, 2) == [0, 1, 1, 2]


def test_the_next_printed_step_is_at_least_every_steps_later():
    assert printed(1000, 5, 900, 1004, 1005, 1600, 2005, 9000) == [5, 1005, 2005, 9000]


def test_a_lower_step_is_a_new_run_and_prints_again():
    assert printed(1000, 0, 5000, 128, 256, 1128) == [0, 5000, 128, 1128]


def test_all_keys_of_a_printed_step_are_printed_and_none_of_a_silent_one():
    stream = io.StringIO()
    logger = PrintLogger(10, stream)
    for step in (0, 5, 10):
        for key in ("a", "b", "c"):
            logger.log_scalar(key, 1.0, step)
        logger.log_metrics({"d": 1.0, "e": 2.0}, step)
    assert [line.split(":")[0] for line in stream.getvalue().splitlines()] == [
        f"[step {step}] {key}" for step in (0, 10) for key in ("a", "b", "c", "d")
    ]


def test_a_histogram_does_not_use_up_a_step():
    stream = io.StringIO()
    logger = PrintLogger(10, stream)
    logger.log_histogram("h", [1.0], 0)
    logger.log_scalar("a", 1.0, 5)
    assert stream.getvalue() == "[step 5] a: 1.0000\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.0000"),
        (2.5e-5, "2.500e-05"),
        (-2.5e-5, "-2.500e-05"),
        (0.001, "0.0010"),
        (1e12, "1.000e+12"),
        (123456.5, "123456.5000"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
    ],
)
def test_small_large_and_broken_values_are_readable(value, shown):
    stream = io.StringIO()
    PrintLogger(stream=stream).log_scalar("a", value, 0)
    assert stream.getvalue() == f"[step 0] a: {shown}\n"


def test_a_negative_interval_is_refused():
    with pytest.raises(ConfigError, match=r"PrintLogger\.every = -1"):
        PrintLogger(-1)
