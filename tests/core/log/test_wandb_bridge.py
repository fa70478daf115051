"""The W&B bridge, as a real process without a network; its run file is read back record by record."""

import io
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from rl4jax.core.log import JsonLogger

BRIDGE = Path(__file__).parents[3] / "scripts" / "wandb_bridge.py"


def run_bridge(tmp_path: Path, *args: str, stdin: bytes = b"") -> tuple[str, list[dict], list]:
    """Run the bridge offline; returns its stderr, the rows of history and the metric definitions in the run file."""
    env = {
        **os.environ,
        "WANDB_DIR": str(tmp_path),
        "WANDB_CACHE_DIR": str(tmp_path),
        "WANDB_CONFIG_DIR": str(tmp_path),
        "HOME": str(tmp_path),
    }
    out = subprocess.run(
        [sys.executable, str(BRIDGE), "--offline", *args], input=stdin, capture_output=True, timeout=120, cwd=tmp_path, env=env, check=False
    )
    stderr = out.stderr.decode()
    assert out.returncode == 0, stderr
    (path,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    records = read_run(path)
    rows = [
        {(item.key or "/".join(item.nested_key)): json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.WhichOneof("record_type") == "history"
    ]
    return stderr, rows, [record.metric for record in records if record.WhichOneof("record_type") == "metric"]


def read_run(path: Path) -> list:
    """wandb ships no reader, but its file is a LevelDB log of protobuf records: blocks of 32 KiB, chunks with a head of 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record  # pyright: ignore[reportAttributeAccessIssue]

    data, position, parts, records = path.read_bytes(), 7, b"", []
    assert data.startswith(b":W&B")
    while position + 7 <= len(data):
        left = 32768 - position % 32768
        if left < 7:  # the rest of a block, too short for a head
            position += left
            continue
        length, kind = struct.unpack_from("<HB", data, position + 4)
        parts += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            record = Record()
            record.ParseFromString(parts)
            records.append(record)
            parts = b""
    return records


def values(rows: list[dict], key: str) -> list[tuple]:
    return [(row["global_step"], row[key]) for row in rows if key in row]


@pytest.fixture
def lines() -> str:
    stream = io.StringIO()
    logger = JsonLogger(stream)
    logger.log_scalar("train/loss", 0.5, 1000)
    logger.log_metrics({"train/kl": 0.25, "train/entropy": 0.75}, 1000)
    logger.log_scalar("train/loss", 0.125, 10)  # out of order
    logger.log_scalars("return", {"min": -1.0, "max": 2.0}, 2000)
    logger.log_text("info", "1 < 2 & <b>ünïcödé</b>\nsecond line", 3000)
    logger.log_histogram("weights", [0.0, 1.0, 1.0, float("nan")], 4000)
    logger.log_scalar("train/loss", float("nan"), 5000)
    logger.log_scalar("train/loss", float("-inf"), 6000)
    return stream.getvalue()


def test_records_among_other_output_reach_the_run(tmp_path, lines):
    noise = b'Compiling...\n\n{"torn": \n[1, 2]\n5\nnull\n\xff\xfe not text\n' + b"[" * 100_000 + b"\n"
    wrong = [
        {"type": "scalar", "key": "wrong", "step": 1},
        {"type": "scalar", "key": "wrong", "value": "abc", "step": 1},
        {"type": "scalar", "key": "wrong", "value": None, "step": 1},
        {"type": "scalar", "key": "wrong", "value": 1.0, "step": -1},
        {"type": "scalar", "key": "wrong", "value": 1.0, "step": 1e999},
        {"type": "scalar", "key": 3, "value": 1.0, "step": 1},
        {"type": "scalars", "key": "wrong", "values": 1.0, "step": 1},
        {"type": "picture", "key": "wrong", "value": 1.0, "step": 1},
        {"key": "wrong"},
    ]
    stderr, rows, metrics = run_bridge(tmp_path, stdin=noise + "".join(json.dumps(w) + "\n" for w in wrong).encode() + lines.encode())

    assert "sent 9 records, skipped 17 lines" in stderr
    assert "Traceback" not in stderr
    assert "Warning" not in stderr
    assert not any("wrong" in row for row in rows)
    assert values(rows, "train/loss")[:2] == [(1000, 0.5), (10, 0.125)]
    assert str([(step, float(value)) for step, value in values(rows, "train/loss")[2:]]) == "[(5000, nan), (6000, -inf)]"
    assert values(rows, "train/kl") == [(1000, 0.25)]
    assert values(rows, "return/min") + values(rows, "return/max") == [(2000, -1.0), (2000, 2.0)]

    ((step, counts),) = values(rows, "weights/values")
    ((_, bins),) = values(rows, "weights/bins")
    assert (step, sum(counts), counts[0], counts[-1], bins[0], bins[-1]) == (4000, 3, 1, 2, 0.0, 1.0)

    ((step, path),) = values(rows, "info/path")
    (page,) = tmp_path.glob(f"wandb/offline-run-*/files/{path}")
    assert step == 3000
    assert "<pre>1 &lt; 2 &amp; &lt;b&gt;ünïcödé&lt;/b&gt;\nsecond line</pre>" in page.read_text(encoding="utf-8")

    assert any(metric.glob_name == "*" and metric.step_metric == "global_step" for metric in metrics)


def test_files_can_be_given_and_no_line_is_needed(tmp_path, lines):
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "b.jsonl").write_text("")
    stderr, rows, _ = run_bridge(tmp_path, str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), "--project", "mine")
    assert "sent 9 records, skipped 0 lines" in stderr
    assert values(rows, "train/kl") == [(1000, 0.25)]


def test_a_missing_file_is_named_before_a_run_is_started(tmp_path):
    out = subprocess.run(
        [sys.executable, str(BRIDGE), "--offline", "missing.jsonl"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert out.returncode == 2
    assert "no such file: missing.jsonl" in out.stderr
    assert not (tmp_path / "wandb").exists()
