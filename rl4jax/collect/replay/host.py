"""The ring in memory, for loops in Python."""

import contextlib
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np
from jax.tree_util import GetAttrKey
from jaxtyping import Array, Bool, Int, PyTree

from .host_ring import AbstractHostReplay, check_newest, writable
from .layout import Layout, check_capacity, check_valid, layout_of, split_items


@jax.tree_util.register_pytree_with_keys_class
class HostReplay(AbstractHostReplay):
    """The last `capacity` items in NumPy arrays, written in place. Sampled items are copies.

    It is a view of arrays that all its descendants share: `add` returns the next view, and the old one raises if it is used again. As a
    pytree it is its arrays and two counters, so `rl.save` and `rl.load` store it whole.

    >>> replay = HostReplay.empty(3, like=np.int32(0))
    >>> replay = replay.add(np.arange(5, dtype=np.int32))
    >>> replay.items().tolist()
    [2, 3, 4]
    """

    __slots__ = ("_count", "_known", "_newest", "_storage")

    _storage: PyTree[Any]  # arrays [capacity, ...]
    _newest: Any  # an array without axes, shared by all views: how many items were ever added
    _count: Any  # the same as this view knows it
    _known: tuple[Layout, list[np.ndarray]] | None  # the layout and the arrays of the storage in a list, once they were needed

    def __init__(self, storage: PyTree[Any], newest: Any, count: Any, known: tuple[Layout, list[np.ndarray]] | None = None):
        """Of parts; `HostReplay.empty` makes a ring."""
        self._storage, self._newest, self._count, self._known = storage, newest, count, known

    @classmethod
    def empty(cls, capacity: int, like: PyTree) -> "HostReplay":
        """A ring for items such as `like`: one example of them, or its `jax.ShapeDtypeStruct`s."""
        capacity = check_capacity(capacity, "HostReplay.empty", less_than=2**32)
        layout = layout_of(like, "HostReplay.empty")
        leaves = [np.zeros((capacity, *shape), dtype) for shape, dtype in zip(layout.shapes, layout.dtypes, strict=True)]
        return cls(jax.tree.unflatten(layout.structure, leaves), np.zeros((), np.int64), np.zeros((), np.int64))

    @property
    def capacity(self) -> int:
        return self._parts()[1][0].shape[0]

    @property
    def count(self) -> int:
        """How many items were ever added."""
        return int(self._count)

    def add(self, items: PyTree, valid: Bool[Array | np.ndarray, " N"] | None = None) -> "HostReplay":
        """Append a batch `[N, ...]`; the oldest make room. `valid` leaves out those that are not real, such as dead slots of a rollout."""
        self._check_current("add")
        layout, arrays = self._parts()
        leaves, num = split_items(items, layout, "HostReplay.add")
        rows = [np.asarray(x) for x in leaves]
        if valid is not None:
            check_valid(valid, num, "HostReplay.add")
            chosen = np.asarray(valid)
            if np.count_nonzero(chosen) < num:  # many times faster than all()
                rows, num = [x[chosen] for x in rows], int(chosen.sum())
        count, capacity = self.count, arrays[0].shape[0]
        first = max(num - capacity, 0)  # those before would be overwritten at once
        while first < num:
            slot = (count + first) % capacity
            last = min(num, first + capacity - slot)  # up to the end of the ring, then from its start
            for old, new in zip(arrays, rows, strict=True):
                old[slot : slot + last - first] = new[first:last]
            first = last
        self._newest[()] = count + num
        return HostReplay(self._storage, self._newest, np.array(count + num), self._known)

    def checkpointed(self) -> AbstractContextManager[None]:
        """For a `with` around the saving of a checkpoint. Nothing is to be done here: the checkpoint holds all items."""
        self._check_current("checkpointed")
        return contextlib.nullcontext()

    def _read(self, slots: Int[np.ndarray, " N"]) -> PyTree:
        layout, arrays = self._parts()
        return layout.structure.unflatten([x.take(slots, 0) for x in arrays])

    def _write(self, slots: Int[np.ndarray, " N"], items: PyTree) -> None:
        layout, arrays = self._parts()
        for old, new in zip(arrays, split_items(items, layout, "HostReplay.rewrite")[0], strict=True):
            old[slots] = new

    def _check_current(self, verb: str) -> None:
        check_newest(self._count, self._newest, f"HostReplay.{verb}")

    def _parts(self) -> tuple[Layout, list[np.ndarray]]:
        if self._known is None:  # not when built: what JAX puts into a pytree need not be arrays
            layout = layout_of(jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), self._storage), "HostReplay")
            self._known = (layout, jax.tree.leaves(self._storage))
        return self._known

    def tree_flatten_with_keys(self) -> tuple[Any, None]:
        return ((GetAttrKey("storage"), self._storage), (GetAttrKey("newest"), self._newest), (GetAttrKey("count"), self._count)), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> "HostReplay":
        storage, newest, count = children
        return cls(jax.tree.map(writable, storage), writable(newest, np.int64), writable(count, np.int64))
