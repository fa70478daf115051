"""Numbered records of one length in append-only files of `per_file` records each.

Reading is through read-only memory maps, whose pages belong to the files and not to the process. Writing is through the files: on a full
disk a write raises, while a map would end the process (SIGBUS). For the same reason a file has its full length, mostly a hole, before it
is mapped, and only what was written is ever read.
"""

import contextlib
import mmap
import os
import re
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, UInt8

from rl4jax.core.atomic import sync_folder
from rl4jax.core.errors import CheckpointError

_NAME = re.compile(r"chunk_(\d{9,})\.bin")
_MOST_MAPS = 512  # each holds a file descriptor, of which a process often may have 1,024
_MOST_UNSYNCED = 64  # likewise


class Chunks:
    """Record i is row `i % per_file` of file `i // per_file`."""

    def __init__(self, folder: Path, num_bytes: int, per_file: int):
        self.folder, self.num_bytes, self.per_file = folder, num_bytes, per_file
        self._unsynced: dict[int, Any] = {}  # open files that were written, oldest first
        self._maps: dict[int, np.ndarray] = {}
        self._lost: OSError | None = None
        weakref.finalize(self, _close_all, self._unsynced)

    def write(self, first: int, records: UInt8[np.ndarray, "N bytes"]) -> None:
        """Write records `first` and on. If it raises, the records before `first` are as they were."""
        done = 0
        while done < len(records):
            chunk, row = divmod(first + done, self.per_file)
            num = min(len(records) - done, self.per_file - row)
            with self._telling(chunk, "written", " The ring is unchanged."):
                file = self._file(chunk)
                file.seek(row * self.num_bytes)
                rest = records[done : done + num].data.cast("B")
                while rest:  # a disk that is nearly full takes a part
                    rest = rest[file.write(rest) :]
            done += num

    def read(self, index: Int[np.ndarray, " N"]) -> UInt8[np.ndarray, "N bytes"]:
        """Copies of records that were written."""
        out = np.empty((len(index), self.num_bytes), np.uint8)
        chunk, row = np.divmod(index, self.per_file)
        order = np.argsort(chunk, kind="stable")
        ends = 1 + np.flatnonzero(np.diff(chunk[order]))
        for members in np.split(order, ends) if len(order) else []:
            out[members] = self._map(int(chunk[members[0]]))[row[members]]
        return out

    def check(self, first: int, end: int) -> None:
        """Raise unless the files of records from `first` to before `end` are there in full length."""
        for chunk in range(first // self.per_file, -(-end // self.per_file) if end > first else 0):
            path = self._path(chunk)
            length = path.stat().st_size if path.is_file() else None
            if length is None or length < self._length:
                what = "is missing" if length is None else f"has {length:,} bytes of {self._length:,}"
                raise CheckpointError(
                    f"{path} {what}, but items {first:,} to {end - 1:,} are needed. The folder keeps those of its two newest checkpoints: "
                    "load one of these, and save within `with replay.checkpointed():`."
                )

    def sync(self) -> None:
        """Return when everything written is on the disk."""
        if self._lost is not None:  # the system tells of a lost page once, and then calls it clean
            raise CheckpointError(f"{self.folder} lost what it could not write: {self._lost}. Go on from the last checkpoint.")
        for chunk in list(self._unsynced):
            self._sync(chunk)
        with self._telling(None, "synced"):
            sync_folder(self.folder)

    def remove_before(self, first: int) -> None:
        """Remove the files that hold only records before `first`. A file that cannot be removed is no reason to stop."""
        for name in os.listdir(self.folder):
            match = _NAME.fullmatch(name)
            if match and (chunk := int(match[1])) < first // self.per_file:
                self._maps.pop(chunk, None)
                if chunk in self._unsynced:
                    self._unsynced.pop(chunk).close()
                with contextlib.suppress(OSError):
                    (self.folder / name).unlink()

    def is_used(self) -> bool:
        return self.folder.is_dir() and any(map(_NAME.fullmatch, os.listdir(self.folder)))

    @property
    def _length(self) -> int:
        return self.per_file * self.num_bytes

    def _path(self, chunk: int) -> Path:
        return self.folder / f"chunk_{chunk:09d}.bin"

    def _file(self, chunk: int) -> Any:
        """The file, open for writing and in its full length."""
        if chunk not in self._unsynced:
            if len(self._unsynced) >= _MOST_UNSYNCED:
                self._sync(next(iter(self._unsynced)))
            handle = os.open(self._path(chunk), os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
            file = os.fdopen(handle, "r+b", buffering=0)
            try:
                if os.fstat(handle).st_size < self._length:
                    file.truncate(self._length)
            except BaseException:
                file.close()
                raise
            self._unsynced[chunk] = file
        return self._unsynced[chunk]

    def _map(self, chunk: int) -> UInt8[np.ndarray, "rows bytes"]:
        if chunk not in self._maps:
            if len(self._maps) >= _MOST_MAPS:
                self._maps.pop(next(iter(self._maps)))
            with self._telling(chunk, "read"), self._path(chunk).open("rb") as file:
                pages = mmap.mmap(file.fileno(), self._length, access=mmap.ACCESS_READ)
            self._maps[chunk] = np.frombuffer(pages, np.uint8).reshape(self.per_file, self.num_bytes)
        return self._maps[chunk]

    def _sync(self, chunk: int) -> None:
        file = self._unsynced[chunk]
        with self._telling(chunk, "synced"):
            try:
                os.fsync(file.fileno())
            except OSError as error:
                self._lost = error
                raise
        del self._unsynced[chunk]
        file.close()

    @contextlib.contextmanager
    def _telling(self, chunk: int | None, what: str, more: str = "") -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: a file that is too short for its map
            path = self.folder if chunk is None else self._path(chunk)
            raise CheckpointError(f"{path} cannot be {what}: {error}.{more}") from error


def _close_all(files: dict[int, Any]) -> None:
    for file in files.values():
        file.close()
