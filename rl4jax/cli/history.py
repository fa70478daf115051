"""The log of a run: `log.jsonl`, from which everything else can be made again. Each step stands in it once."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rl4jax.core.atomic import write_atomic
from rl4jax.core.log.composite_logger import CompositeLogger
from rl4jax.core.log.json_logger import JsonLogger
from rl4jax.core.log.logger import Logger
from rl4jax.core.log.tensorboard_logger import TensorBoardLogger

LOG = "log.jsonl"
TENSORBOARD = "tensorboard"


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a log; a last one that a killed process left unfinished is no line."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            yield record


def scalars(path: Path) -> Iterator[tuple[str, float, int]]:
    """Name, value and step of every number in a log; a value that another program wrote as null is none."""
    for record in records(path):
        if record.get("type") == "scalar" and isinstance(record.get("key"), str):
            with contextlib.suppress(TypeError, ValueError, LookupError, OverflowError):
                yield record["key"], float(record["value"]), record["step"]


def forget_after(path: Path, step: int) -> None:
    """Drop the lines of later steps, which will be written again; and whatever is not a line."""
    kept = [record for record in records(path) if record["step"] <= step]
    write_atomic(path, "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in kept).encode())


def open_history(folder: Path, step: int, *, tensorboard: bool) -> Logger:
    """A logger that goes on after a step. TensorBoard cannot forget: its files are made anew from the log."""
    path = folder / LOG
    forget_after(path, step)
    if not tensorboard:
        return JsonLogger(path)
    shutil.rmtree(folder / TENSORBOARD, ignore_errors=True)
    events = TensorBoardLogger(folder / TENSORBOARD)
    for key, value, step_of_it in scalars(path):
        events.log_scalar(key, value, step_of_it)
    events.flush()
    return CompositeLogger([JsonLogger(path), events])
