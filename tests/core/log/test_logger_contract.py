"""What every logger promises: it takes any kind of number, and it never stops training."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax.core.log import AbstractLogger, CompositeLogger, JsonLogger, Logger, NoopLogger, PrintLogger, TensorBoardLogger


class ListLogger(AbstractLogger):
    """Keeps what reaches the sink; raises `error` instead, if there is one."""

    def __init__(self, error: BaseException | None = None):
        self.records, self.error, self.flushed, self.closed = [], error, 0, 0

    def keep(self, *record):
        if self.error is not None:
            raise self.error
        self.records.append(record)

    def write_scalar(self, key, value, step):
        self.keep("scalar", key, value, step)

    def write_scalars(self, key, values, step):
        self.keep("scalars", key, values, step)

    def write_text(self, key, text, step):
        self.keep("text", key, text, step)

    def write_histogram(self, key, values, step):
        self.keep("histogram", key, values, step)

    def write_metrics(self, metrics, step):
        self.keep("metrics", metrics, step)

    def flush_sink(self):
        self.flushed += 1

    def close_sink(self):
        self.closed += 1


class ForeignLogger(NoopLogger):
    """A logger that is not built on `AbstractLogger`, and does not guard itself."""

    def fail(self, *args):
        raise OSError("disk full")

    log_scalar = log_scalars = log_text = log_histogram = log_metrics = flush = close = fail  # pyright: ignore[reportAssignmentType]


def log_one_of_each(logger: Logger, *steps):
    for step in steps:
        logger.log_scalar("a", 1.0, step)
        logger.log_scalars("b", {"x": 1.0, "y": 2.0}, step)
        logger.log_text("c", "hello", step)
        logger.log_histogram("d", [1.0, 2.0], step)
        logger.log_metrics({"e": 1.0, "f": 2.0}, step)
    logger.flush()


def test_every_logger_is_a_logger(tmp_path):
    for make in (
        NoopLogger,
        PrintLogger,
        lambda: CompositeLogger([]),
        lambda: JsonLogger(tmp_path / "a"),
        lambda: TensorBoardLogger(tmp_path),
    ):
        with make() as logger:
            assert isinstance(logger, Logger)
            log_one_of_each(logger, 0)


def test_something_without_the_methods_is_not_a_logger():
    assert not isinstance([], Logger)


@pytest.mark.parametrize(
    "value",
    [2, 2.0, True + 1, np.float32(2), np.array(2), np.int8(2), jnp.array(2.0), jnp.array(2, jnp.bfloat16), jnp.array(2, jnp.uint8)],
    ids=lambda v: f"{type(v).__name__}-{getattr(v, 'dtype', '')}",
)
def test_scalars_of_every_kind_arrive_as_python_floats(value):
    logger = ListLogger()
    logger.log_scalar("a", value, 0)
    logger.log_scalars("b", {"x": value}, 0)
    logger.log_metrics({"c": value}, 0)
    assert logger.records == [("scalar", "a", 2.0, 0), ("scalars", "b", {"x": 2.0}, 0), ("metrics", {"c": 2.0}, 0)]
    assert type(logger.records[0][2]) is float
    assert type(logger.records[2][1]["c"]) is float


@pytest.mark.parametrize("values", [[1, 2, 3, 4], np.arange(1, 5), jnp.arange(1, 5).reshape(2, 2), jnp.arange(1, 5, dtype=jnp.bfloat16)])
def test_histograms_arrive_flat_in_float64(values):
    logger = ListLogger()
    logger.log_histogram("a", values, 0)
    kept = logger.records[0][2]
    assert kept.dtype == np.float64
    assert kept.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("step", [7, np.int64(7), jnp.array(7), 7.0])
def test_steps_of_every_kind_arrive_as_python_ints(step):
    logger = ListLogger()
    logger.log_scalar("a", 1, step)
    assert logger.records == [("scalar", "a", 1.0, 7)]
    assert type(logger.records[0][3]) is int


def test_a_step_beyond_the_reach_of_floats_is_exact():
    logger = ListLogger()
    logger.log_scalar("a", 1, 2**53 + 1)
    assert logger.records[0][3] == 2**53 + 1


def test_metrics_keep_their_order_and_are_fetched_together(monkeypatch):
    fetches = []
    device_get = jax.device_get
    monkeypatch.setattr(jax, "device_get", lambda tree: fetches.append(1) or device_get(tree))
    logger = ListLogger()
    logger.log_metrics({"z": jnp.array(1.0), "a": jnp.array(2.0), "m": 3.0}, 0)
    assert list(logger.records[0][1].items()) == [("z", 1.0), ("a", 2.0), ("m", 3.0)]
    assert len(fetches) == 1


def test_metrics_of_a_compiled_update_can_be_logged():
    logger = ListLogger()
    logger.log_metrics(jax.jit(lambda x: {"loss": x.sum(), "max": x.max()})(jnp.arange(3.0)), jnp.array(4))
    assert logger.records == [("metrics", {"loss": 3.0, "max": 2.0}, 4)]


@pytest.mark.parametrize(
    "bad", [np.zeros(3), jnp.zeros((1,)), "0.5", None, 1j, [1.0, [2.0]], {"nested": 1.0}, object()], ids=lambda v: type(v).__name__
)
def test_a_metric_that_is_not_a_scalar_is_skipped_with_one_warning_that_names_it(bad):
    logger = ListLogger()
    with pytest.warns(RuntimeWarning, match="ListLogger skipped 'bad'") as caught:
        logger.log_metrics({"good": 1.0, "bad": bad, "fine": 2.0}, 0)
    assert len(caught) == 1
    logger.log_metrics({"good": 1.0, "bad": bad, "fine": 2.0}, 1)  # a second warning would be an error
    assert logger.records == [("metrics", {"good": 1.0, "fine": 2.0}, step) for step in range(2)]


def test_each_wrong_key_is_named():
    logger = ListLogger()
    with pytest.warns(RuntimeWarning) as caught:
        logger.log_metrics({"one": np.zeros(2), "two": np.zeros(2)}, 0)
    assert [str(w.message).split("'")[1] for w in caught] == ["one", "two"]
    with pytest.warns(RuntimeWarning, match="'three/x'"):
        logger.log_scalars("three", {"x": np.zeros(2), "y": 1.0}, 0)
    assert logger.records == [("scalars", "three", {"y": 1.0}, 0)]


def test_logging_inside_jit_does_not_stop_the_trace():
    logger = ListLogger()

    @jax.jit
    def update(x):
        logger.log_metrics({"traced": x, "plain": 1.0}, 0)
        return x + 1

    with pytest.warns(RuntimeWarning, match="'traced'"):
        assert update(jnp.array(1.0)) == 2.0
    assert logger.records == [("metrics", {"plain": 1.0}, 0)]


@pytest.mark.parametrize("step", [-1, 0.5, float("nan"), None, np.arange(2)])
def test_a_wrong_step_skips_the_record_with_one_warning(step):
    logger = ListLogger()
    with pytest.warns(RuntimeWarning, match="'train/loss'"):
        logger.log_scalar("train/loss", 1.0, step)
    logger.log_scalar("train/loss", 1.0, step)
    assert logger.records == []


def test_metrics_that_are_no_dict_do_not_stop_training():
    logger = ListLogger()
    log_metrics = getattr(AbstractLogger.log_metrics, "__wrapped__", AbstractLogger.log_metrics)  # without the tests' type checker
    with pytest.warns(RuntimeWarning, match="ListLogger failed"):
        log_metrics(logger, [1.0, 2.0], 0)  # pyright: ignore[reportArgumentType]


def test_a_failing_sink_warns_once_and_goes_on():
    logger = ListLogger(OSError("disk full"))
    with pytest.warns(RuntimeWarning, match="training goes on, this sink may lack data") as caught:
        log_one_of_each(logger, 0, 1, 2)
    assert len(caught) == 1
    assert "ListLogger failed with OSError('disk full')" in str(caught[0].message)
    logger.error = None
    logger.log_scalar("a", 1.0, 3)  # the sink came back
    assert logger.records == [("scalar", "a", 1.0, 3)]


def test_each_failing_logger_warns():
    for logger in (ListLogger(OSError()), ListLogger(OSError())):
        with pytest.warns(RuntimeWarning, match="ListLogger failed"):
            log_one_of_each(logger, 0)


def test_ctrl_c_passes_through():
    with pytest.raises(KeyboardInterrupt):
        ListLogger(KeyboardInterrupt()).log_scalar("a", 1.0, 0)


def test_a_closed_logger_warns_once_and_ignores():
    logger = ListLogger()
    logger.close()
    logger.close()
    logger.flush()
    with pytest.warns(RuntimeWarning, match="ListLogger is closed") as caught:
        log_one_of_each(logger, 0, 1)
    assert len(caught) == 1
    assert (logger.records, logger.flushed, logger.closed) == ([], 0, 1)


def test_leaving_the_context_closes_and_lets_errors_out():
    logger = ListLogger()
    with pytest.raises(ZeroDivisionError), logger:
        raise ZeroDivisionError
    assert logger.closed == 1


def test_nothing_to_log_writes_nothing():
    logger = ListLogger()
    logger.log_metrics({}, 0)
    logger.log_scalars("a", {}, 0)
    assert logger.records == []


def test_composite_hands_every_record_to_every_logger():
    first, second = ListLogger(), ListLogger()
    with CompositeLogger([first, NoopLogger(), second]) as logger:
        log_one_of_each(logger, jnp.array(3))
    assert [record[0] for record in first.records] == ["scalar", "scalars", "text", "histogram", "metrics"]
    assert all(record[-1] == 3 for record in first.records)
    assert str(first.records) == str(second.records)
    assert (first.flushed, first.closed, second.flushed, second.closed) == (1, 1, 1, 1)


@pytest.mark.parametrize("bad", [ForeignLogger(), ListLogger(OSError("disk full"))], ids=["foreign", "ours"])
def test_a_failing_logger_does_not_keep_records_from_the_others(bad):
    before, after = ListLogger(), ListLogger()
    logger = CompositeLogger([before, bad, after])
    with pytest.warns(RuntimeWarning, match=rf"{type(bad).__name__}.*disk full.*training goes on") as caught:
        log_one_of_each(logger, 0, 1)
    logger.close()
    assert len(caught) == 1
    assert len(before.records) == len(after.records) == 10
    assert before.closed == after.closed == 1


def test_composite_names_a_wrong_key_once_for_all():
    first, second = ListLogger(), ListLogger()
    with pytest.warns(RuntimeWarning, match="'bad'") as caught:
        CompositeLogger([first, second]).log_metrics({"bad": np.zeros(2), "good": 1.0}, 0)
    assert len(caught) == 1
    assert first.records == second.records == [("metrics", {"good": 1.0}, 0)]


def test_the_noop_logger_does_not_look_at_values():
    NoopLogger().log_metrics({"a": object()}, -1)  # pyright: ignore[reportArgumentType]


WITHOUT_JAX = """
import sys
sys.modules["jax"] = None
from rl4jax.core.log import JsonLogger
JsonLogger(sys.stdout).log_metrics({"a": 1}, 0)
"""


def test_loggers_work_without_jax():
    out = subprocess.run([sys.executable, "-c", WITHOUT_JAX], capture_output=True, text=True, check=True)
    assert '"key":"a","value":1.0' in out.stdout


@pytest.mark.parametrize(
    ("module", "extra", "make"),
    [
        ("tensorboardX", "tensorboard", lambda m, path: m.TensorBoardLogger(path)),
        ("wandb", "wandb", lambda m, path: m.WandbLogger("project")),
    ],
)
def test_a_missing_package_is_named_by_its_extra(module, extra, make, monkeypatch, tmp_path):
    import rl4jax.core.log as log

    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"pip install 'rl4jax\[{extra}\]'"):
        make(log, tmp_path)
