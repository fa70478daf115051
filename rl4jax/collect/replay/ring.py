"""The in-graph ring: a pytree of arrays that is filled and sampled inside `jit`, `scan` and `vmap`."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int32, PRNGKeyArray, PyTree, UInt32

from rl4jax.core.contract import check_key
from rl4jax.core.errors import ShapeError, is_count, require
from rl4jax.core.number import is_concrete

from .groups import group_slots
from .layout import Layout, check_bits, check_capacity, check_not_empty, check_slots, check_valid, layout_of, split_items
from .sample import Sample


class Replay(NamedTuple):
    """The last `capacity` items, on the device. Item i, counted from 0 for ever, is in slot `i % capacity`.

    Inside a compiled `scan` it is written in place. A call of `add` outside of one copies it whole, because the old ring stays as it
    was: for loops in Python there is `HostReplay`.

    >>> ring = Replay.empty(3, like=jnp.zeros((), jnp.int32))
    >>> ring = ring.add(jnp.arange(5))
    >>> ring.items().tolist()
    [2, 3, 4]
    """

    storage: PyTree[Array]  # [capacity, ...]
    position: Int32[Array, "..."]  # the slot that is written next
    size: Int32[Array, "..."]  # how many items there are

    @classmethod
    def empty(cls, capacity: int, like: PyTree) -> "Replay":
        """A ring for items such as `like`: one example of them, or its `jax.ShapeDtypeStruct`s."""
        capacity = check_capacity(capacity, "Replay.empty", less_than=2**30)
        layout = layout_of(like, "Replay.empty")
        kinds = [jax.dtypes.canonicalize_dtype(dtype) for dtype in layout.dtypes]  # NumPy's float64 is float32 here
        leaves = [jnp.zeros((capacity, *shape), dtype) for shape, dtype in zip(layout.shapes, kinds, strict=True)]
        return cls(jax.tree.unflatten(layout.structure, leaves), jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))

    def __repr__(self) -> str:
        return f"Replay(size={self.size}, capacity={self.capacity})"

    @property
    def capacity(self) -> int:
        return jax.tree.leaves(self.storage)[0].shape[0]

    def add(self, items: PyTree, valid: Bool[Array | np.ndarray, " N"] | None = None) -> "Replay":
        """Append a batch `[N, ...]`; the oldest make room. `valid` leaves out those that are not real, such as dead slots of a rollout."""
        layout = self._layout()
        leaves, num = split_items(jax.tree.map(_as_jax, items), layout, "Replay.add")
        if valid is not None:
            check_valid(valid, num, "Replay.add")
        return self if num == 0 else _add(self, jax.tree.unflatten(layout.structure, leaves), valid)

    def sample(self, num: int, *, key: PRNGKeyArray) -> Sample:
        """Draw `num` items, each uniformly and with replacement."""
        require(is_count(num), "Replay.sample: num", num, "a positive integer")
        check_key(key, "Replay.sample")
        return self.sample_with(jax.random.bits(key, (num,), jnp.uint32))

    def sample_with(self, bits: UInt32[Array | np.ndarray, " N"]) -> Sample:
        """Draw by given random bits, for loops that draw all of theirs ahead: `slot = bits % size`.

        The first slots are likelier than the last by one part in `2**32 / size`: for a million items, 0.02 %.
        """
        check_bits(bits, "Replay.sample_with")
        if is_concrete(self.size):
            check_not_empty(int(np.asarray(self.size).min()), "Replay.sample")
        return _sample(self, bits)

    def at(self, slots: Int[Array | np.ndarray, "*N"]) -> PyTree:
        """The items in given slots. Inside of `jit` nobody can say that one is empty."""
        if is_concrete(slots) and is_concrete(self.size) and jnp.ndim(self.size) == 0:
            check_slots(np.asarray(slots), int(self.size), "Replay.at")
        return jax.tree.map(lambda x: x.at[jnp.asarray(slots)].get(mode="clip"), self.storage)

    def items(self) -> PyTree:
        """All items, oldest first, in NumPy arrays. Outside of `jit` only: their number is a shape."""
        slots = self._slots("items")
        return jax.tree.map(lambda x: np.asarray(x)[slots], self.storage)

    def group_by(self, key_of: Callable[[PyTree], Any]) -> dict[Hashable, np.ndarray]:
        """The slots of each group, oldest first, for a function from all items, stacked, to one key each: `lambda items: items.episode`."""
        return group_slots(self._slots("group_by"), key_of(self.items()), "Replay.group_by")

    def reprioritize(self, slots: Int[Array | np.ndarray, " N"], error: Float[Array | np.ndarray, " N"]) -> "Replay":
        """The same ring: here all items are equally likely. In a `PrioritizedReplay` this sets priorities."""
        return self

    def _layout(self) -> Layout:
        return layout_of(jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), self.storage), "Replay.add")

    def _slots(self, verb: str) -> np.ndarray:
        if not is_concrete(self.size):
            raise ShapeError(f"Replay.{verb}: the size is not known inside jit, vmap and scan. Call it outside, or use at(slots).")
        size = int(self.size)
        return (int(self.position) - size + np.arange(size)) % self.capacity


@jax.jit
def _add(ring: Replay, items: PyTree, valid: Array | None) -> Replay:
    capacity, num = ring.capacity, jax.tree.leaves(items)[0].shape[0]
    if valid is None:
        skipped, count = max(num - capacity, 0), min(num, capacity)
        items = jax.tree.map(lambda x: x[skipped:], items)
    elif num == 1:
        skipped, count = 0, valid[0].astype(jnp.int32)
    else:
        total = valid.sum(dtype=jnp.int32)
        skipped, count = jnp.maximum(total - capacity, 0), jnp.minimum(total, capacity)
        order = jnp.argsort(~valid, stable=True)  # the real ones to the front
        order = jax.lax.dynamic_slice_in_dim(order, skipped, min(num, capacity))
        items = jax.tree.map(lambda x: x[order], items)
    position = (ring.position + skipped) % capacity
    if num == 1:
        storage = _write_one(ring.storage, items, position, count)
    else:
        storage = jax.tree.map(lambda old, new: _write(old, new, position, count), ring.storage, items)
    return Replay(storage, (position + count) % capacity, jnp.minimum(ring.size + count, capacity))


def _write_one(storage: PyTree, item: PyTree, position: Array, count: Array | int) -> PyTree:
    """Put one item at `position`, if `count` is 1.

    A slice is quicker than a scatter. It is in a loop of one turn, which the barrier hides from XLA, because of a bare slice it would make
    a part of whatever reads the ring next, and for that it would need a copy of the whole ring.
    """

    def one(old, new):
        new = jnp.where(count > 0, new, jax.lax.dynamic_slice_in_dim(old, position, 1)) if not isinstance(count, int) else new
        return jax.lax.dynamic_update_slice_in_dim(old, new, position, 0)

    turns = jax.lax.optimization_barrier(jnp.int32(1))
    return jax.lax.fori_loop(0, turns, lambda _, storage: jax.tree.map(one, storage, item), storage)


def _write(old: Array, new: Array, position: Array, count: Array | int) -> Array:
    """Put the first `count` rows of `new` at `position` and on, around the end of the ring; in place inside a scan."""
    capacity, num = old.shape[0], new.shape[0]
    rows = jnp.arange(num)
    slots = (position + rows) % capacity
    if not isinstance(count, int):
        slots = jnp.where(rows < count, slots, capacity + rows)  # outside: dropped
    return old.at[slots].set(new, mode="drop", unique_indices=True)


@jax.jit
def _sample(ring: Replay, bits: Array) -> Sample:
    size = jnp.maximum(ring.size, 1)  # an empty ring inside a compiled program gives zeros
    slots = (bits % size.astype(jnp.uint32)).astype(jnp.int32)
    items = jax.tree.map(lambda x: x.at[slots].get(mode="promise_in_bounds"), ring.storage)
    return Sample(items, slots, jnp.full(slots.shape, 1 / size, jnp.float32))


def _as_jax(x: Any) -> Any:
    """NumPy's 64-bit numbers as JAX takes them in: with 32."""
    return jnp.asarray(x) if isinstance(x, np.ndarray | np.generic) else x
