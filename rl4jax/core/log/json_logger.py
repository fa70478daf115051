"""Metrics as JSONL: one JSON object per line, which any tool can read, also while it grows."""

import json
import math
import os
import time
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from .logger import AbstractLogger, Stream


class JsonLogger(AbstractLogger):
    """Appends lines such as `{"type":"scalar","key":"train/loss","value":0.42,"step":1000,"wall_time":1234567890.123}`.

    Each line reaches the operating system as it is logged, so a killed process keeps all it logged. JSON has no NaN or infinities:
    they are written as the strings "NaN", "Infinity" and "-Infinity", which `float()` reads. A stream that was passed in stays open.
    """

    def __init__(self, path_or_stream: str | os.PathLike[str] | Stream):
        if isinstance(path_or_stream, str | os.PathLike):
            self._stream = self._file = open_log(Path(path_or_stream))
        else:
            self._stream, self._file = path_or_stream, None

    def write_scalar(self, key: str, value: float, step: int) -> None:
        self._write({"type": "scalar", "key": key, "value": to_json(value)}, step)

    def write_scalars(self, key: str, values: dict[str, float], step: int) -> None:
        self._write({"type": "scalars", "key": key, "values": {name: to_json(value) for name, value in values.items()}}, step)

    def write_text(self, key: str, text: str, step: int) -> None:
        self._write({"type": "text", "key": key, "text": text}, step)

    def write_histogram(self, key: str, values: np.ndarray, step: int) -> None:
        self._write({"type": "histogram", "key": key, "values": [to_json(value) for value in values.tolist()]}, step)

    def write_metrics(self, metrics: dict[str, float], step: int) -> None:
        for key, value in metrics.items():
            self.write_scalar(key, value, step)

    def flush_sink(self) -> None:
        self._stream.flush()

    def close_sink(self) -> None:
        if self._file is not None:
            self._file.close()
        else:
            self._stream.flush()

    def _write(self, record: dict[str, Any], step: int) -> None:
        line = json.dumps(record | {"step": step, "wall_time": time.time()}, separators=(",", ":"), allow_nan=False)
        self._stream.write(line + "\n")  # one call per line, so that lines stay whole


def to_json(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def open_log(path: Path) -> TextIO:
    """Open a JSONL file to append whole lines, after mending the end that a killed process may have left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file():
        mend_last_line(path)
    return path.open("a", encoding="utf-8", newline="\n", buffering=1)


def mend_last_line(path: Path) -> None:
    """If the last line has no end: give it one if it is whole JSON, else cut it off."""
    with path.open("r+b") as file:
        whole = last_newline(file)
        file.seek(whole)
        tail = file.read()
        if not tail:
            return
        try:
            json.loads(tail)
            file.write(b"\n")
        except ValueError:
            file.truncate(whole)


def last_newline(file: Any, block: int = 1 << 16) -> int:
    """Where the last whole line ends; reads from the back, since logs grow long."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - block)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
