"""The ring on disk, for more items than memory holds; a killed run goes on from its last checkpoint."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.tree_util import GetAttrKey
from jaxtyping import Array, Bool, Int, PyTree

from rl4jax.core.atomic import to_json, write_atomic
from rl4jax.core.errors import CheckpointError, is_count, require

from .chunks import Chunks
from .host_ring import AbstractHostReplay, check_newest
from .layout import check_capacity, check_valid, layout_of, split_items
from .records import Records

_HEADER = "replay.json"
_VERSION = 1


@jax.tree_util.register_pytree_with_keys_class
class DiskReplay(AbstractHostReplay):
    """The last `capacity` items in files of a folder, about `chunk_bytes` each.

    As a pytree it is one number, the count of items ever added, so a checkpoint of it is small: load it into a `DiskReplay` of the same
    folder. What was written after that checkpoint is overwritten. Save within `with replay.checkpointed():`, which also removes files
    that are no longer needed. Apart from that it is used like `HostReplay`.
    """

    __slots__ = ("_count", "_shared")

    def __init__(self, folder: str | os.PathLike[str], capacity: int, like: PyTree, chunk_bytes: int = 2**26):
        capacity = check_capacity(capacity, "DiskReplay", less_than=2**32)
        require(is_count(chunk_bytes), "DiskReplay: chunk_bytes", chunk_bytes, "a positive integer")
        records = Records(layout_of(like, "DiskReplay"))
        require(records.num_bytes > 0, "DiskReplay: like", like, "an item of at least one byte")
        chunks = Chunks(Path(folder).absolute(), records.num_bytes, per_file=max(int(chunk_bytes) // records.num_bytes, 1))
        _check_header(chunks, records, capacity)
        self._shared = _Shared(records, chunks, capacity)
        self._count: Any = np.zeros((), np.int64)

    @property
    def capacity(self) -> int:
        return self._shared.capacity

    @property
    def count(self) -> int:
        """How many items were ever added."""
        return int(self._count)

    def add(self, items: PyTree, valid: Bool[Array | np.ndarray, " N"] | None = None) -> "DiskReplay":
        """Append a batch `[N, ...]`; the oldest make room. `valid` leaves out those that are not real, such as dead slots of a rollout."""
        self._check_current("add")
        self._go_on()
        shared, count = self._shared, self.count
        leaves, num = split_items(items, shared.records.layout, "DiskReplay.add")
        rows = [np.asarray(x) for x in leaves]
        if valid is not None:
            check_valid(valid, num, "DiskReplay.add")
            chosen = np.asarray(valid)
            rows, num = [x[chosen] for x in rows], int(chosen.sum())
        skipped = max(num - shared.capacity, 0)  # would be forgotten at once
        shared.chunks.write(count + skipped, shared.records.encode([x[skipped:] for x in rows]))
        shared.newest = count + num
        return self.tree_unflatten(shared, (np.array(count + num),))

    @contextlib.contextmanager
    def checkpointed(self) -> Iterator[None]:
        """For a `with` around the saving of a checkpoint: `with replay.checkpointed(): run_dir.save(step, state)`.

        All items are on the disk before the saving begins. After it succeeded, the files go that hold no item of this checkpoint nor of
        the one before. Between checkpoints none goes, so the folder grows.
        """
        self._check_current("checkpointed")
        self._go_on()
        shared, count = self._shared, self.count
        shared.chunks.sync()
        yield
        if count != shared.checkpoints[-1]:  # else the same items are being saved again, as the best so far for example
            shared.checkpoints = (shared.checkpoints[-1], count)
        shared.chunks.remove_before(min((max(saved - shared.capacity, 0) for saved in shared.checkpoints if saved > 0), default=0))

    def _read(self, slots: Int[np.ndarray, " N"]) -> PyTree:
        return self._shared.records.decode(self._shared.chunks.read(self._numbers(slots)))

    def _write(self, slots: Int[np.ndarray, " N"], items: PyTree) -> None:
        self._go_on()
        records = self._shared.records
        leaves, _ = split_items(items, records.layout, "DiskReplay.rewrite")
        for number, record in zip(self._numbers(slots).tolist(), records.encode([np.asarray(x) for x in leaves]), strict=True):
            self._shared.chunks.write(number, record[None])

    def _numbers(self, slots: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """Which items are in these slots, counted from the first that was ever added."""
        oldest = self.count - self.size
        return oldest + (slots - oldest) % self.capacity

    def _check_current(self, verb: str) -> None:
        shared = self._shared
        newest = self._count if shared.newest is None else shared.newest
        check_newest(self._count, newest, f"DiskReplay.{verb}", hint="To go back to a checkpoint, load it into a new DiskReplay.")
        if shared.newest is None and shared.checked != self.count:
            shared.chunks.check(self.count - self.size, self.count)
            shared.checked = self.count

    def _go_on(self) -> None:
        """From here on a folder that was just opened belongs to this view, which a checkpoint has been loaded into, if there was one."""
        if self._shared.newest is None:
            self._shared.newest, self._shared.checkpoints = self.count, (0, self.count)

    def tree_flatten_with_keys(self) -> tuple[Any, "_Shared"]:
        return ((GetAttrKey("count"), self._count),), self._shared

    @classmethod
    def tree_unflatten(cls, shared: "_Shared", children: Any) -> "DiskReplay":
        view = object.__new__(cls)
        view._shared, (view._count,) = shared, children
        return view


class _Shared:
    """What all views of a folder have in common. Equal only to itself, so that trees with rings of different folders do not mix."""

    def __init__(self, records: Records, chunks: Chunks, capacity: int):
        self.records, self.chunks, self.capacity = records, chunks, capacity
        self.newest: int | None = None  # how many items were ever added; not known before the first is: a checkpoint may yet be loaded
        self.checked = 0  # for how many it was seen that their files are there
        self.checkpoints: tuple[int, int] = (0, 0)  # how many there were at the last two checkpoints


def _check_header(chunks: Chunks, records: Records, capacity: int) -> None:
    """Write what the folder holds, or raise if it holds something else."""
    path = chunks.folder / _HEADER
    header = {
        "format": "rl4jax.DiskReplay",
        "version": _VERSION,
        "byteorder": sys.byteorder,
        "capacity": capacity,
        "items_per_chunk": chunks.per_file,
        "item": records.describe(),
    }
    if not path.is_file():
        if chunks.is_used():
            raise CheckpointError(f"{chunks.folder} has chunks of items but no {_HEADER} that says what they are. Use another folder.")
        write_atomic(path, (to_json(f"DiskReplay: {_HEADER}", header, indent=2) + "\n").encode())
        return
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}.") from error
    if found != header:
        found = found if isinstance(found, dict) else {}
        lines = [f"{name} is {found.get(name)!r} there and {here!r} here" for name, here in header.items() if found.get(name) != here]
        raise CheckpointError("\n  ".join([f"{chunks.folder} was made for another ring.", *lines]) + "\nUse another folder.")
