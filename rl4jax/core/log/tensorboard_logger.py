"""Metrics as TensorBoard event files."""

import os
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import missing_extra
from .logger import AbstractLogger

FLUSH_SECONDS = 5.0  # a flush waits for the disk


class TensorBoardLogger(AbstractLogger):
    """Writes a new event file into `directory`; look at it with `tensorboard --logdir <directory>`.

    Entries of `log_scalars` become `key/name`. Histograms leave out values that are not finite, which TensorBoard cannot show.
    """

    def __init__(self, directory: str | os.PathLike[str]):
        try:
            from tensorboardX import event_file_writer, summary
            from tensorboardX.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
        except ImportError as error:
            raise missing_extra("TensorBoardLogger", extra="tensorboard") from error
        # Not its SummaryWriter, which hands events to a thread through a queue of ten: once the disk is full the thread dies, the queue
        # fills, and logging waits forever. Its flush() does not wait for the queue either. These are the parts below it.
        Path(directory).mkdir(parents=True, exist_ok=True)
        # Names hold the time in seconds and files are opened anew: without a suffix a second logger would erase the first one's.
        self._file = event_file_writer.EventsWriter(os.path.join(directory, "events"), f".{os.getpid()}.{uuid.uuid4().hex[:8]}")
        self._summary, self._event = summary, Event
        self._flushed = time.monotonic()

    def write_scalar(self, key: str, value: float, step: int) -> None:
        self._write(self._summary.scalar(key, value), step)

    def write_scalars(self, key: str, values: dict[str, float], step: int) -> None:
        self.write_metrics({f"{key}/{name}": value for name, value in values.items()}, step)

    def write_text(self, key: str, text: str, step: int) -> None:
        self._write(self._summary.text(key, text), step)

    def write_histogram(self, key: str, values: np.ndarray, step: int) -> None:
        self._write(self._summary.histogram(key, values[np.isfinite(values)], bins=64), step)

    def write_metrics(self, metrics: dict[str, float], step: int) -> None:
        for key, value in metrics.items():
            self.write_scalar(key, value, step)

    def flush_sink(self) -> None:
        self._file.flush()
        self._flushed = time.monotonic()

    def close_sink(self) -> None:
        self._file.close()

    def _write(self, summary: Any, step: int) -> None:
        self._file.write_event(self._event(wall_time=time.time(), step=step, summary=summary))
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush_sink()
