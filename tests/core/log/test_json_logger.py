"""JsonLogger: the schema, strict JSON, and files that survive a killed process."""

import io
import json
import math
import subprocess
import sys
import time

import jax.numpy as jnp
import pytest

from rl4jax.core.log import JsonLogger

NASTY = [
    'quote " and \\ backslash',
    "line\nbreak\r\n",
    "tab\tnull\0bell\a",
    "ünïcödé 日本 🎲",
    "\u2028\u2029\x85",
    "",
    "lone \ud800 surrogate",
]


def strict(line: str) -> dict:
    """Parse as the JSON standard says, without Python's NaN and Infinity."""

    def refuse(constant):
        raise ValueError(constant)

    return json.loads(line, parse_constant=refuse)


def read(path) -> list[dict]:
    text = path.read_text(encoding="utf-8")
    assert text == "" or text.endswith("\n")
    return [strict(line) for line in text.splitlines()]


def test_every_record_follows_the_schema(tmp_path):
    before = time.time()
    with JsonLogger(tmp_path / "new" / "folder" / "log.jsonl") as logger:
        logger.log_scalar("train/loss", 0.42, 1000)
        logger.log_scalars("return", {"min": 1, "max": jnp.array(2.5)}, 1001)
        logger.log_text("info", "hello", 1002)
        logger.log_histogram("weights", jnp.arange(3), 1003)
        logger.log_metrics({"a": 1.0, "b": 2.0}, 1004)
    records = read(tmp_path / "new" / "folder" / "log.jsonl")
    times = [record.pop("wall_time") for record in records]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= time.time()
    assert records == [
        {"type": "scalar", "key": "train/loss", "value": 0.42, "step": 1000},
        {"type": "scalars", "key": "return", "values": {"min": 1.0, "max": 2.5}, "step": 1001},
        {"type": "text", "key": "info", "text": "hello", "step": 1002},
        {"type": "histogram", "key": "weights", "values": [0.0, 1.0, 2.0], "step": 1003},
        {"type": "scalar", "key": "a", "value": 1.0, "step": 1004},
        {"type": "scalar", "key": "b", "value": 2.0, "step": 1004},
    ]


def test_a_line_has_no_spaces_and_the_fields_in_order():
    stream = io.StringIO()
    JsonLogger(stream).log_scalar("train/loss", 0.42, 1000)
    assert stream.getvalue().startswith('{"type":"scalar","key":"train/loss","value":0.42,"step":1000,"wall_time":')


@pytest.mark.parametrize(("value", "written"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")])
def test_what_json_cannot_hold_is_written_as_strings_that_float_reads(value, written):
    stream = io.StringIO()
    logger = JsonLogger(stream)
    logger.log_scalar("a", value, 0)
    logger.log_scalars("b", {"x": value, "y": 1.0}, 0)
    logger.log_histogram("c", jnp.array([1.0, value]), 0)
    scalar, scalars, histogram = map(strict, stream.getvalue().splitlines())
    assert (scalar["value"], scalars["values"], histogram["values"]) == (written, {"x": written, "y": 1.0}, [1.0, written])
    assert str(float(scalar["value"])) == str(value)


@pytest.mark.parametrize("value", [0.1, 1e-300, 1.7976931348623157e308, -0.0, 1 / 3])
def test_numbers_are_read_back_exactly(value):
    stream = io.StringIO()
    JsonLogger(stream).log_scalar("a", value, 0)
    assert repr(strict(stream.getvalue())["value"]) == repr(value)


@pytest.mark.parametrize("nasty", NASTY, ids=ascii)
def test_any_key_and_text_survives_on_one_line(nasty, tmp_path):
    with JsonLogger(tmp_path / "log") as logger:
        logger.log_text(nasty, nasty, 0)
        logger.log_scalars(nasty, {nasty: 1.0}, 0)
    text, scalars = read(tmp_path / "log")
    assert (text["key"], text["text"], scalars["key"], scalars["values"]) == (nasty, nasty, nasty, {nasty: 1.0})


def test_reopening_appends(tmp_path):
    for step in range(3):
        with JsonLogger(str(tmp_path / "log")) as logger:
            logger.log_scalar("a", 1.0, step)
    assert [record["step"] for record in read(tmp_path / "log")] == [0, 1, 2]


def test_a_line_is_in_the_file_as_soon_as_it_is_logged(tmp_path):
    with JsonLogger(tmp_path / "log") as logger:
        for step in range(3):
            logger.log_scalar("a", 1.0, step)
            assert len(read(tmp_path / "log")) == step + 1


def test_a_passed_stream_is_flushed_but_not_closed(tmp_path):
    with (tmp_path / "log").open("w") as stream:
        logger = JsonLogger(stream)
        logger.log_scalar("a", 1.0, 0)
        logger.close()
        assert not stream.closed
        assert len(read(tmp_path / "log")) == 1


WHOLE = b'{"type":"scalar","key":"a","value":1.0,"step":0,"wall_time":1.0}'


@pytest.mark.parametrize(
    ("left", "kept"),
    [
        (b"", 0),
        (WHOLE + b"\n", 1),
        (WHOLE, 1),  # only the line end is missing
        (WHOLE + b"\n" + WHOLE[:-1], 1),
        (WHOLE + b"\n{", 1),
        (WHOLE[:20], 0),
        (WHOLE + b"\n\0\0\0\0", 1),
        (WHOLE + b'\n{"type":"text","text":"\xe6', 1),
        (WHOLE + b'\n{"type":"histogram","values":[' + b"1.0," * 100_000, 1),  # longer than one block read from the back
    ],
    ids=range(9),
)
def test_a_torn_last_line_is_mended_before_appending(left, kept, tmp_path):
    (tmp_path / "log").write_bytes(left)
    with JsonLogger(tmp_path / "log") as logger:
        logger.log_scalar("a", 1.0, 7)
    records = read(tmp_path / "log")
    assert len(records) == kept + 1
    assert records[-1]["step"] == 7


ENDLESS = """
import itertools, sys
from rl4jax.core.log import JsonLogger
logger = JsonLogger(sys.argv[1])
for step in itertools.count():
    logger.log_metrics({"a": 0.5, "b": step}, step)
"""


def test_a_killed_process_keeps_every_line_and_the_next_run_continues(tmp_path):
    path = tmp_path / "log"
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)])
    try:
        deadline = time.monotonic() + 60
        while not path.exists() or path.stat().st_size < 200_000:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.kill()  # SIGKILL: the process gets no chance to clean up
        process.wait()
    records = read(path)
    assert [(r["step"], r["key"]) for r in records] == [(i // 2, "ab"[i % 2]) for i in range(len(records))]

    path.write_bytes(path.read_bytes()[:-30])  # as if the kill had hit in the middle of a write
    with JsonLogger(path) as logger:
        logger.log_scalar("again", 1.0, 0)
    assert [r["key"] for r in read(path)] == [r["key"] for r in records[:-1]] + ["again"]


DISK_FULL = """
import resource, sys, warnings
from rl4jax.core.log import JsonLogger, TensorBoardLogger
make = {"json": JsonLogger, "tensorboard": TensorBoardLogger}[sys.argv[1]]
logger = make(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
for step in range(5000):
    logger.log_scalar("a", 1.0, step)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
for step in range(5000, 5010):
    logger.log_scalar("a", 1.0, step)
logger.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits on file sizes are a Unix thing")
@pytest.mark.parametrize("kind", ["json", "tensorboard"])
def test_a_full_disk_does_not_stop_training(kind, tmp_path):
    out = subprocess.run([sys.executable, "-c", DISK_FULL, kind, tmp_path / "log"], capture_output=True, text=True, timeout=60, check=True)
    assert out.stderr.count("RuntimeWarning") == 1
    assert "training goes on, this sink may lack data" in out.stderr
    if kind == "json":  # lines are lost, but those that are there are whole, also once there is space again
        steps = [record["step"] for record in read(tmp_path / "log")]
        assert steps == sorted(set(steps))
        assert steps[:3] == [0, 1, 2]
        assert steps[-10:] == list(range(5000, 5010))
