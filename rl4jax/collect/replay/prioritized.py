"""Prioritised replay in-graph (Schaul et al. 2016): what surprised most is drawn most often."""

import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int, PRNGKeyArray, PyTree, UInt32

from rl4jax.core.contract import check_key
from rl4jax.core.errors import is_count, require
from rl4jax.core.number import Number, is_concrete

from .layout import check_bits, check_not_empty
from .priority import check_alpha, check_errors, priority_of_error, stratify
from .ring import Replay
from .sample import Sample
from .sum_tree import SumTree, find_slots, get_priority, make_tree, set_priority, total_priority


class PrioritizedReplay(NamedTuple):
    """A `Replay` whose items are drawn with probability `priority / sum of priorities`, where `priority = (|error| + 1e-6) ** alpha`.

    A new item has the largest priority so far: it will be looked at soon. Its error is set by `reprioritize` afterwards. Samples are
    stratified: the k-th of N is drawn from the k-th N-th of all priorities laid end to end.
    """

    replay: Replay
    tree: SumTree
    largest: Float32[Array, "..."]  # priority so far, 1 at the start
    alpha: Float32[Array, "..."]  # 0: all alike; 1: in proportion to the error

    @classmethod
    def empty(cls, capacity: int, like: PyTree, alpha: Number = 0.6) -> "PrioritizedReplay":
        """A ring for items such as `like`: one example of them, or its `jax.ShapeDtypeStruct`s."""
        check_alpha(alpha, "PrioritizedReplay.empty")
        replay = Replay.empty(capacity, like)
        return cls(replay, make_tree(capacity), jnp.ones((), jnp.float32), jnp.asarray(alpha, jnp.float32))

    def __repr__(self) -> str:
        return f"PrioritizedReplay({self.replay!r})"

    @property
    def capacity(self) -> int:
        return self.replay.capacity

    @property
    def size(self) -> Array:
        return self.replay.size

    def add(self, items: PyTree, valid: Bool[Array | np.ndarray, " N"] | None = None) -> "PrioritizedReplay":
        """Append a batch `[N, ...]`, as `Replay.add` does."""
        replay = self.replay.add(items, valid)
        num = min(len(jax.tree.leaves(items)[0]), self.capacity)
        return self if num == 0 else _after_add(self, replay, valid, num)

    def sample(self, num: int, *, key: PRNGKeyArray) -> Sample:
        """Draw `num` items by their priorities, with replacement."""
        require(is_count(num), "PrioritizedReplay.sample: num", num, "a positive integer")
        check_key(key, "PrioritizedReplay.sample")
        return self.sample_with(jax.random.bits(key, (num,), jnp.uint32))

    def sample_with(self, bits: UInt32[Array | np.ndarray, " N"]) -> Sample:
        """Draw by given random bits, for loops that draw all of theirs ahead."""
        check_bits(bits, "PrioritizedReplay.sample_with")
        if is_concrete(self.size):
            check_not_empty(int(np.asarray(self.size).min()), "PrioritizedReplay.sample")
        return _sample(self, bits)

    def at(self, slots: Int[Array | np.ndarray, "*N"]) -> PyTree:
        """The items in given slots."""
        return self.replay.at(slots)

    def items(self) -> PyTree:
        """All items, oldest first, in NumPy arrays. Outside of `jit` only: their number is a shape."""
        return self.replay.items()

    def group_by(self, key_of: Callable[[PyTree], Any]) -> dict[Hashable, np.ndarray]:
        """The slots of each group, oldest first, for a function from all items, stacked, to one key each."""
        return self.replay.group_by(key_of)

    def reprioritize(self, slots: Int[Array | np.ndarray, " N"], error: Float[Array | np.ndarray, " N"]) -> "PrioritizedReplay":
        """Give the items in `slots` the priorities of new errors.

        If a slot comes twice, the larger error holds. An error that is not finite counts as the largest so far.
        """
        check_errors(slots, error, "PrioritizedReplay.reprioritize")
        return _reprioritize(self, jnp.asarray(slots), jnp.asarray(error))


@functools.partial(jax.jit, static_argnames="num")
def _after_add(ring: PrioritizedReplay, replay: Replay, valid: Array | None, num: int) -> PrioritizedReplay:
    """Give the newest items, at most `num` of them, their first priority."""
    count = num if valid is None else jnp.minimum(valid.sum(dtype=jnp.int32), num)
    rows = jnp.arange(num)
    slots = (replay.position - count + rows) % ring.capacity
    tree = set_priority(ring.tree, slots, jnp.broadcast_to(ring.largest, (num,)), rows < count)
    return ring._replace(replay=replay, tree=tree)


@jax.jit
def _sample(ring: PrioritizedReplay, bits: Array) -> Sample:
    slots = find_slots(ring.tree, stratify(bits))
    priority, total = get_priority(ring.tree, slots), total_priority(ring.tree)
    return Sample(ring.replay.at(slots), slots, priority / jnp.maximum(total, 1e-30))  # an empty ring inside a compiled program: zeros


@jax.jit
def _reprioritize(ring: PrioritizedReplay, slots: Array, error: Array) -> PrioritizedReplay:
    priority = priority_of_error(error.astype(jnp.float32), ring.alpha, ring.largest)
    there = (slots >= 0) & (slots < ring.size)
    tree = set_priority(ring.tree, slots, priority, there)
    return ring._replace(tree=tree, largest=jnp.maximum(ring.largest, jnp.where(there, priority, 0.0).max()))
