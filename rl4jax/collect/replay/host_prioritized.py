"""Prioritised replay (Schaul et al. 2016) in memory or on disk, for loops in Python."""

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np
from jax.tree_util import GetAttrKey
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt32

from .host import HostReplay
from .host_ring import AbstractHostReplay, check_newest, check_slots, draw_bits, writable
from .host_sum_tree import find_slots, get_priority, make_tree, set_priority, total_priority
from .layout import check_bits, check_not_empty
from .priority import check_alpha, check_errors, priority_of_error, stratify
from .sample import Sample

_FIELDS = ("replay", "tree", "largest", "alpha", "newest", "count")


@jax.tree_util.register_pytree_with_keys_class
class HostPrioritizedReplay:
    """Draws from a `HostReplay` or `DiskReplay` with the probabilities of `PrioritizedReplay`, kept in float64.

    Like these it is a view: go on with what `add` and `reprioritize` return. The priorities are part of a checkpoint.

    >>> replay = HostPrioritizedReplay.empty(3, like=np.int32(0), alpha=1.0)
    >>> replay = replay.add(np.arange(2, dtype=np.int32))
    >>> replay = replay.reprioritize(np.array([0, 1]), np.array([3.0, 1.0]))
    >>> replay.sample_with(np.zeros(1, np.uint32)).probability.round(3).tolist()
    [0.75]
    """

    __slots__ = tuple(f"_{name}" for name in _FIELDS)

    def __init__(self, replay: Any, tree: Any, largest: Any, alpha: Any, newest: Any, count: Any):
        """Of parts; `HostPrioritizedReplay.empty` and `of` make a ring."""
        self._replay = replay
        self._tree = tree
        self._largest = largest  # priority so far, 1 at the start; an array that all views share, like the tree
        self._alpha = alpha
        self._newest = newest  # how often it was changed; shared too
        self._count = count  # the same as this view knows it

    @classmethod
    def empty(cls, capacity: int, like: PyTree, alpha: float = 0.6) -> "HostPrioritizedReplay":
        """A ring in memory for items such as `like`: one example of them, or its `jax.ShapeDtypeStruct`s."""
        return cls.of(HostReplay.empty(capacity, like), alpha)

    @classmethod
    def of(cls, replay: AbstractHostReplay, alpha: float = 0.6) -> "HostPrioritizedReplay":
        """On top of a ring, which from now on is to be used through this one only. Items that it has get the priority 1."""
        check_alpha(alpha, "HostPrioritizedReplay")
        tree = make_tree(replay.capacity)
        set_priority(tree, np.arange(replay.size), np.ones(replay.size))
        return cls(replay, tree, np.ones(()), np.asarray(alpha, np.float64), np.zeros((), np.int64), np.zeros((), np.int64))

    @property
    def capacity(self) -> int:
        return self._replay.capacity

    @property
    def size(self) -> int:
        """How many items there are."""
        return self._replay.size

    @property
    def count(self) -> int:
        """How many items were ever added."""
        return self._replay.count

    def add(self, items: PyTree, valid: Bool[Array | np.ndarray, " N"] | None = None) -> "HostPrioritizedReplay":
        """Append a batch `[N, ...]`; the oldest make room. New items get the largest priority so far."""
        self._check_current("add")
        replay = self._replay.add(items, valid)
        slots = np.arange(max(self.count, replay.count - self.capacity), replay.count) % self.capacity
        return self._changed(replay, slots, np.full(len(slots), self._largest))

    def sample(self, num: int, *, key: PRNGKeyArray) -> Sample:
        """Draw `num` items by their priorities, stratified and with replacement."""
        return self.sample_with(draw_bits(num, key, "HostPrioritizedReplay.sample"))

    def sample_with(self, bits: UInt32[Array | np.ndarray, " N"]) -> Sample:
        """Draw by given random bits, for loops that draw theirs ahead."""
        self._check_current("sample")
        check_bits(bits, "HostPrioritizedReplay.sample_with")
        check_not_empty(self.size, "HostPrioritizedReplay.sample")
        slots = find_slots(self._tree, stratify(np.asarray(bits)))
        probability = get_priority(self._tree, slots) / total_priority(self._tree)
        return Sample(self._replay.at(slots), slots, probability.astype(np.float32))

    def at(self, slots: Int[Array | np.ndarray, "*N"]) -> PyTree:
        """The items in given slots."""
        self._check_current("at")
        return self._replay.at(slots)

    def items(self) -> PyTree:
        """All items, oldest first, copied into memory."""
        self._check_current("items")
        return self._replay.items()

    def group_by(self, key_of: Callable[[PyTree], Any]) -> dict[Hashable, np.ndarray]:
        """The slots of each group, oldest first, for a function from all items, stacked, to one key each."""
        self._check_current("group_by")
        return self._replay.group_by(key_of)

    def reprioritize(self, slots: Int[Array | np.ndarray, " N"], error: Float[Array | np.ndarray, " N"]) -> "HostPrioritizedReplay":
        """Give the items in `slots` the priorities of new errors.

        If a slot comes twice, the larger error holds. An error that is not finite counts as the largest so far.
        """
        self._check_current("reprioritize")
        check_errors(slots, error, "HostPrioritizedReplay.reprioritize")
        slots = np.asarray(slots, np.int64)
        check_slots(slots, self.size, "HostPrioritizedReplay.reprioritize")
        priority = priority_of_error(np.asarray(error, np.float64), self._alpha, self._largest)
        self._largest[()] = max(self._largest, priority.max(initial=0.0))
        return self._changed(self._replay, slots, priority)

    def checkpointed(self) -> AbstractContextManager[None]:
        """For a `with` around the saving of a checkpoint, as of the ring below."""
        self._check_current("checkpointed")
        return self._replay.checkpointed()

    def _changed(self, replay: AbstractHostReplay, slots: np.ndarray, priority: np.ndarray) -> "HostPrioritizedReplay":
        set_priority(self._tree, slots, priority)
        self._newest[()] += 1
        return HostPrioritizedReplay(replay, self._tree, self._largest, self._alpha, self._newest, self._newest.copy())

    def _check_current(self, verb: str) -> None:
        check_newest(self._count, self._newest, f"HostPrioritizedReplay.{verb}")

    def __repr__(self) -> str:
        return f"HostPrioritizedReplay({self._replay!r})"

    def tree_flatten_with_keys(self) -> tuple[Any, None]:
        return tuple((GetAttrKey(name), getattr(self, f"_{name}")) for name in _FIELDS), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> "HostPrioritizedReplay":
        replay, tree, largest, alpha, newest, count = children
        tree = jax.tree.map(lambda x: writable(x, np.float64), tree)
        floats, counts = (writable(x, np.float64) for x in (largest, alpha)), (writable(x, np.int64) for x in (newest, count))
        return cls(replay, tree, *floats, *counts)
