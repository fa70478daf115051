"""Rings of streams outside of JAX, in memory or on disk: `SequenceReplay` for environments on the host, and for more than memory holds."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import GetAttrKey
from jaxtyping import Array, Bool, Int, PRNGKeyArray, PyTree

from rl4jax.core.errors import ConfigError, ShapeError, is_count, require

from .disk import DiskReplay
from .host import HostReplay
from .host_ring import draw_bits, writable
from .layout import check_capacity, check_rewritten, check_steps, check_stream, layout_of
from .sequences import Sequences
from .stretches import Index, anywhere, fresh_first, inside, longest, num_stretches

MOST_IN_CHECKPOINT = 100_000  # steps


class Places(NamedTuple):
    """Where the steps of each stream are in the ring that all share."""

    item: Int[Any, "capacity B"]  # its number in the ring
    age: Int[Any, "capacity B"]  # how many steps of the same episode lie before it
    last_age: Int[Any, " B"]
    oldest: Int[Any, " B"]
    added: Int[Any, " B"]
    served: Int[Any, " B"]  # steps that `sample_fresh` has handed out


@jax.tree_util.register_pytree_with_keys_class
class HostSequenceReplay:
    """The last steps of B streams, about `capacity` of each, in NumPy arrays or, with `on_disk`, in files. Sampled steps are copies.

    It is used like `SequenceReplay`, and until it is full the same key draws the same stretches from both. Like `HostReplay` it is a view
    of what its descendants share: `add` returns the next view, and the old one raises if it is used again.

    >>> Item = NamedTuple("Item", [("x", Any), ("is_first", Any)])
    >>> ring = HostSequenceReplay.empty(4, 1, like=Item(np.int32(0), np.bool_(False)))
    >>> for x in range(6):
    ...     ring = ring.add(Item(np.full((1, 1), x, np.int32), np.zeros((1, 1), bool)))
    >>> ring.sample(1, 4, key=jax.random.key(0)).items.x.ravel().tolist()
    [2, 3, 4, 5]
    """

    __slots__ = ("_places", "_rewritable", "_ring")

    _ring: Any  # a HostReplay or DiskReplay of the steps without the fields that may be rewritten
    _rewritable: Any  # another one of these, as a dict; none if there are none
    _places: Places

    def __init__(self, ring: Any, rewritable: Any, places: Places):
        """Of parts; `empty` and `on_disk` make a ring."""
        self._ring, self._rewritable, self._places = ring, rewritable, places

    @classmethod
    def empty(cls, capacity: int, num_streams: int, like: Any, rewritable: Sequence[str] = ()) -> "HostSequenceReplay":
        """In memory, for items such as `like`: one step of one stream. `rewritable` are the fields that `rewrite` may replace."""
        kept, fields, capacity = _check(cls, "empty", capacity, num_streams, like, rewritable)
        slots = capacity * num_streams
        rewritten = HostReplay.empty(slots, fields) if fields else None
        return cls(HostReplay.empty(slots, kept), rewritten, _no_places(capacity, num_streams))

    @classmethod
    def on_disk(
        cls, folder: str | os.PathLike[str], capacity: int, num_streams: int, like: Any, rewritable: Sequence[str] = ()
    ) -> "HostSequenceReplay":
        """In files of a folder, as a `DiskReplay`: a checkpoint says where steps are, and a killed run goes on from it.

        What may be rewritten is part of the checkpoint if all streams together hold at most `MOST_IN_CHECKPOINT` steps. Of more it is in
        files too, and what was rewritten after the checkpoint stays so.
        """
        kept, fields, capacity = _check(cls, "on_disk", capacity, num_streams, like, rewritable)
        slots, folder = capacity * num_streams, Path(folder)
        small = slots <= MOST_IN_CHECKPOINT
        rewritten = (HostReplay.empty(slots, fields) if small else DiskReplay(folder / "rewritable", slots, fields)) if fields else None
        return cls(DiskReplay(folder / "steps", slots, kept), rewritten, _no_places(capacity, num_streams))

    @property
    def capacity(self) -> int:
        """Steps that each stream can hold."""
        return len(self._places.age)

    @property
    def num_streams(self) -> int:
        return self._places.age.shape[1]

    @property
    def like(self) -> Any:
        """Shapes and dtypes of one step of one stream."""
        none = self._at(np.zeros(0, np.int64))  # reads nothing, and tells what items are
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), none)

    @property
    def rewritable(self) -> tuple[str, ...]:
        """The fields that `rewrite` may replace."""
        return tuple(sorted(self._rewritable.at(np.zeros(0, np.int64)))) if self._rewritable else ()

    @property
    def size(self) -> int:
        """Steps in all streams."""
        return int((self._places.added - self._places.oldest).sum())

    @property
    def served(self) -> Int[np.ndarray, " B"]:
        """Steps of each stream that `sample_fresh` has handed out."""
        return self._places.served

    def num_stretches(self, length: int) -> int:
        """How many stretches of this length there are."""
        return int(num_stretches(self._index, length, np).sum())

    def add(self, items: Any, valid: Bool[Array | np.ndarray, "N B"] | None = None) -> "HostSequenceReplay":
        """Append steps `[N, B, ...]`, each to its stream; the oldest make room. Those that are not `valid` are left out."""
        items = jax.tree.map(np.asarray, items)
        num = check_steps(items, valid, self.like, self.num_streams, "HostSequenceReplay.add")  # before anything is written
        if num > self.capacity:
            raise ShapeError(f"HostSequenceReplay.add: {num} steps at once, but a stream holds {self.capacity}. Add fewer.")
        valid = np.ones((num, self.num_streams), bool) if valid is None else np.asarray(valid)
        is_first = items.is_first
        items = jax.tree.map(lambda x: x[valid], items)  # in the order of time
        fields = {name: getattr(items, name) for name in self.rewritable}
        ring = self._ring.add(items._replace(**dict.fromkeys(fields)))
        rewritable = self._rewritable and self._rewritable.add(fields)
        places = self._placed(is_first, valid, np.arange(self._ring.count, ring.count))
        return HostSequenceReplay(ring, rewritable, places._replace(oldest=self._still_there(places, ring.count - ring.capacity)))

    def _still_there(self, places: Places, first: int) -> Int[np.ndarray, " B"]:
        """The oldest step of each stream whose item is not before `first`: all share the ring, and one that stands still loses steps."""
        oldest, streams = places.oldest, np.arange(self.num_streams)
        while True:
            gone = (oldest < places.added) & (places.item[oldest % self.capacity, streams] < first)
            if not gone.any():
                return oldest
            oldest = oldest + gone

    def _placed(self, is_first: Bool[np.ndarray, "N B"], valid: Bool[np.ndarray, "N B"], numbers: Int[np.ndarray, " M"]) -> Places:
        """The places after steps were added; they are written down in the arrays that all views share."""
        old = self._places
        number = np.zeros(valid.shape, np.int64)
        number[valid] = numbers
        added, last_age, streams = old.added.copy(), old.last_age.copy(), np.arange(self.num_streams)
        for now, first, step in zip(valid, is_first, number, strict=True):
            last_age = np.where(now, np.where(first, 0, last_age + 1), last_age)
            row = added % self.capacity
            old.item[row[now], streams[now]] = step[now]
            old.age[row[now], streams[now]] = last_age[now]
            added = added + now
        return Places(old.item, old.age, last_age, np.maximum(old.oldest, added - self.capacity), added, old.served)

    def sample(self, num: int, length: int, *, key: PRNGKeyArray, within_episodes: bool = False) -> Sequences:
        """Draw `num` stretches of `length` steps, each uniformly and with replacement."""
        bits = self._bits(num, length, key, within_episodes)
        return self._read(*(inside if within_episodes else anywhere)(self._index, bits, length, np), length)

    def sample_fresh(self, num: int, length: int, *, key: PRNGKeyArray) -> "tuple[HostSequenceReplay, Sequences]":
        """Likewise, but first come those that were never drawn by this method; see `SequenceReplay.sample_fresh`."""
        drawn = anywhere(self._index, self._bits(num, length, key, False), length, np)
        served, stretches = fresh_first(self._index, self._places.served, drawn, length, np)
        after = HostSequenceReplay(self._ring, self._rewritable, self._places._replace(served=served))
        return after, self._read(*stretches, length)

    def rewrite(self, sequences: Sequences, **fields: PyTree) -> "HostSequenceReplay":
        """Replace the rewritable fields, all of them, of the steps of stretches that were just drawn."""
        names = self.rewritable
        require(tuple(sorted(fields)) == names, "HostSequenceReplay.rewrite: fields", sorted(fields), f"the rewritable ones, {[*names]}")
        check_rewritten(fields, sequences.rows, self.like, names, "HostSequenceReplay.rewrite")
        slots = self._slots(sequences.rows, sequences.streams).ravel()
        flat = {name: jax.tree.map(lambda x: np.asarray(x).reshape(len(slots), *x.shape[2:]), fields[name]) for name in names}
        self._rewritable.rewrite(slots, flat)
        return self

    @contextlib.contextmanager
    def checkpointed(self) -> Iterator[None]:
        """For a `with` around the saving of a checkpoint that this ring is part of."""
        with self._ring.checkpointed(), self._rewritable.checkpointed() if self._rewritable else contextlib.nullcontext():
            yield

    @property
    def _index(self) -> Index:
        return Index(self._places.oldest, self._places.added, self._places.age)

    def _bits(self, num: int, length: int, key: PRNGKeyArray, within_episodes: bool) -> Any:
        self._ring._check_current("sample")
        require(is_count(length), "HostSequenceReplay.sample: length", length, "a positive integer")
        bits = draw_bits(num, key, "HostSequenceReplay.sample")
        most = int(longest(self._index, within_episodes, np))
        if most < length:
            what = "episode" if within_episodes else "stream"
            raise ConfigError(
                f"HostSequenceReplay.sample: length = {length}, but the longest {what} so far has {most} steps, and a stream holds "
                f"{self.capacity}. Add more steps, or draw shorter stretches."
            )
        return bits

    def _read(self, streams: Int[np.ndarray, " N"], first: Int[np.ndarray, " N"], length: int) -> Sequences:
        rows = (first + np.arange(length)[:, None]) % self.capacity
        return Sequences(self._at(self._slots(rows, streams)), rows, streams)

    def _at(self, slots: Int[np.ndarray, "..."]) -> Any:
        """Copies of the steps in these slots, with what may be rewritten."""
        fields = self._rewritable.at(slots) if self._rewritable else {}
        return self._ring.at(slots)._replace(**fields)

    def _slots(self, rows: Int[Any, "L N"], streams: Int[Any, " N"]) -> Int[np.ndarray, "L N"]:
        return self._places.item[np.asarray(rows), np.asarray(streams)] % self._ring.capacity

    def __repr__(self) -> str:
        return f"HostSequenceReplay(size={self.size}, capacity={self.capacity} x {self.num_streams})"

    def tree_flatten_with_keys(self) -> tuple[Any, None]:
        children = (("ring", self._ring), ("rewritable", self._rewritable), ("places", self._places))
        return tuple((GetAttrKey(name), child) for name, child in children), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> "HostSequenceReplay":
        ring, rewritable, places = children
        return cls(ring, rewritable, jax.tree.map(writable, places))


def _check(cls: type, verb: str, capacity: int, num_streams: int, like: Any, rewritable: Sequence[str]) -> tuple[Any, dict[str, Any], int]:
    """What is never rewritten of a step, what may be, and the capacity."""
    what = f"{cls.__name__}.{verb}"
    require(is_count(num_streams), f"{what}: num_streams", num_streams, "a positive integer")
    capacity = check_capacity(capacity, what, less_than=2**31)
    layout_of(like, what)
    check_stream(like, what)
    unknown = [name for name in rewritable if name == "is_first" or not hasattr(like, name)]
    require(not unknown, f"{what}: rewritable", tuple(rewritable), f"fields of {type(like).__name__} other than is_first")
    return like._replace(**dict.fromkeys(rewritable)), {name: getattr(like, name) for name in rewritable}, capacity


def _no_places(capacity: int, num_streams: int) -> Places:
    none = np.zeros(num_streams, np.int64)
    item, age = np.zeros((capacity, num_streams), np.int64), np.full((capacity, num_streams), -1, np.int64)
    return Places(item, age, none - 1, none, none.copy(), none.copy())
