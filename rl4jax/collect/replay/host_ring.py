"""What rings outside of JAX have in common: the law of slots and samples, and views that do not go stale unseen."""

import abc
import functools
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt32

from rl4jax.core.contract import check_key
from rl4jax.core.errors import ConfigError, ShapeError, is_count, require
from rl4jax.core.host_arrays import read_only
from rl4jax.core.number import is_concrete

from .groups import group_slots
from .layout import check_bits, check_not_empty, check_slots
from .sample import Sample


class AbstractHostReplay(abc.ABC):
    """A view of a shared ring. `add` writes in place and returns the next view; the old one raises if it is used again.

    Item i, counted from 0 for ever, is in slot `i % capacity`, and the same bits draw the same slots as from an in-graph `Replay`.
    """

    @property
    @abc.abstractmethod
    def capacity(self) -> int: ...

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """How many items were ever added."""

    @property
    def size(self) -> int:
        """How many items there are."""
        return min(self.count, self.capacity)

    @abc.abstractmethod
    def add(self, items: PyTree, valid: Bool[Array | np.ndarray, " N"] | None = None) -> "AbstractHostReplay":
        """Append a batch `[N, ...]`; the oldest make room. `valid` leaves out those that are not real, such as dead slots of a rollout."""

    def sample(self, num: int, *, key: PRNGKeyArray) -> Sample:
        """Draw `num` items, each uniformly and with replacement."""
        return self.sample_with(draw_bits(num, key, f"{type(self).__name__}.sample"))

    def sample_with(self, bits: UInt32[Array | np.ndarray, " N"]) -> Sample:
        """Draw by given random bits, for loops that draw theirs ahead: `slot = bits % size`.

        The first slots are likelier than the last by one part in `2**32 / size`: for a million items, 0.02 %.
        """
        self._check_current("sample")
        check_bits(bits, f"{type(self).__name__}.sample_with")
        size = self.size
        check_not_empty(size, f"{type(self).__name__}.sample")
        slots = (np.asarray(bits) % size).astype(np.int64)
        return Sample(self._read(slots), slots, ones(len(slots)) / size)

    def at(self, slots: Int[Array | np.ndarray, "*N"]) -> PyTree:
        """The items in given slots."""
        self._check_current("at")
        slots = np.asarray(slots, np.int64)
        check_slots(slots, self.size, f"{type(self).__name__}.at")
        return jax.tree.map(lambda x: x.reshape(*slots.shape, *x.shape[1:]), self._read(slots.reshape(-1)))

    def rewrite(self, slots: Int[Array | np.ndarray, " N"], items: PyTree) -> None:
        """Put other items `[N, ...]` into filled slots; of two for one slot the last stays. All views see them."""
        self._check_current("rewrite")
        slots = np.asarray(slots, np.int64)
        check_slots(slots, self.size, f"{type(self).__name__}.rewrite")
        self._write(slots, items)

    def items(self) -> PyTree:
        """All items, oldest first, copied into memory."""
        self._check_current("items")
        return self._read(self._slots())

    def group_by(self, key_of: Callable[[PyTree], Any]) -> dict[Hashable, np.ndarray]:
        """The slots of each group, oldest first, for a function from all items, stacked, to one key each: `lambda items: items.episode`."""
        return group_slots(self._slots(), key_of(self.items()), f"{type(self).__name__}.group_by")

    def reprioritize(self, slots: Int[Array | np.ndarray, " N"], error: Float[Array | np.ndarray, " N"]) -> "AbstractHostReplay":
        """The same ring: here all items are equally likely. In a `HostPrioritizedReplay` this sets priorities."""
        return self

    @abc.abstractmethod
    def checkpointed(self) -> AbstractContextManager[None]:
        """For a `with` around the saving of a checkpoint that this ring is part of."""

    @abc.abstractmethod
    def _read(self, slots: Int[np.ndarray, " N"]) -> PyTree:
        """Copies of the items in slots that are known to be filled."""

    @abc.abstractmethod
    def _write(self, slots: Int[np.ndarray, " N"], items: PyTree) -> None:
        """Put items into slots that are known to be filled."""

    @abc.abstractmethod
    def _check_current(self, verb: str) -> None:
        """Raise unless this is the newest view."""

    def _slots(self) -> Int[np.ndarray, " N"]:
        """All filled slots, oldest item first."""
        return np.arange(self.count - self.size, self.count) % self.capacity

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, capacity={self.capacity})"


@functools.lru_cache(maxsize=16)
def ones(num: int) -> Float[np.ndarray, " N"]:
    """For loops in Python: used again and again."""
    return read_only(np.ones(num, np.float32))


def draw_bits(num: int, key: PRNGKeyArray, what: str) -> UInt32[np.ndarray, " N"]:
    """The bits that an in-graph ring would draw with this key."""
    require(is_count(num), f"{what}: num", num, "a positive integer")
    try:
        return np.asarray(_draw(key, num))
    except (TypeError, ValueError):
        check_key(key, what)  # only now: on every call it would take as long as the drawing
        raise


_draw = functools.partial(jax.jit, static_argnums=1)(lambda key, num: jax.random.bits(key, (num,), np.uint32))


def check_newest(count: Any, newest: Any, what: str, hint: str = "") -> None:
    """Raise unless the number of changes that a view has seen is that of the store behind it."""
    if type(count) is type(newest) is np.ndarray and count == newest:
        return
    if not (is_concrete(count) and is_concrete(newest)):
        raise ShapeError(f"{what}: this ring lives outside of JAX, and its arrays are being traced. Use it outside of jit, or use Replay.")
    if count != newest:
        raise ConfigError(
            f"{what}: this view is stale: it knows {count} changes of its ring, which has seen {newest}. Go on with what the last change "
            f"returned: replay = replay.add(items). {hint}".rstrip()
        )


def writable(leaf: Any, dtype: Any = None) -> Any:
    """The leaf as an array that can be written: what `rl.load` read cannot, nor can JAX's. Whatever else JAX puts into a tree stays."""
    if isinstance(leaf, jax.Array) and is_concrete(leaf):
        return np.array(leaf, dtype)  # JAX's may be narrower
    return leaf.copy() if isinstance(leaf, np.ndarray) and not leaf.flags.writeable else leaf
