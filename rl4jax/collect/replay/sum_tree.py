"""A sum tree in-graph: draws slots in proportion to their priorities, and changes priorities, in a few steps of `log(capacity)`.

Each node has sixteen children, not two, and each level is an array of its own: XLA then works in place and compiles in a second.
Sums are always made anew from the level below, so that no rounding builds up over a run.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt32

_WIDTH = 16
_TINY = np.finfo(np.float32).tiny
SumTree = tuple[Float[Array, "_ 16"], ...]  # the priorities of the slots, then the sums of the rows of each level before, up to one row


def make_tree(capacity: int) -> SumTree:
    """All priorities zero."""
    num_rows = -(-capacity // _WIDTH)
    level = jnp.zeros((num_rows, _WIDTH), jnp.float32)
    return (level,) if num_rows == 1 else (level, *make_tree(num_rows))


def total_priority(tree: SumTree) -> Float[Array, ""]:
    return tree[-1].sum()


def get_priority(tree: SumTree, slots: Int[Array, " N"]) -> Float[Array, " N"]:
    return tree[0].at[slots // _WIDTH, slots % _WIDTH].get(mode="promise_in_bounds")


def set_priority(tree: SumTree, slots: Int[Array, " N"], priority: Float[Array, " N"], where: Bool[Array, " N"]) -> SumTree:
    """Give new priorities to the slots for which `where` is true. If a slot comes twice, the larger holds, whatever the order."""
    where = where & (total_priority(tree) >= 0)  # always: it makes XLA finish an update before it begins the next, which it else copies for
    row, column = jnp.where(where, slots // _WIDTH, 0), slots % _WIDTH
    target = jnp.where(where, row, tree[0].shape[0])  # outside: dropped
    # Not set(0) before max: XLA may compute `priority` from this very tree, and would keep a copy of it for after the first writing.
    level = tree[0].at[target, column].set(priority, mode="drop").at[target, column].max(priority, mode="drop")
    levels = [level]
    for above in tree[1:]:
        total = level.at[row].get(mode="promise_in_bounds").sum(1)  # slots of one row all write the same
        row, column = row // _WIDTH, row % _WIDTH
        level = above.at[row, column].set(total, mode="promise_in_bounds")
        levels.append(level)
    return tuple(levels)


def find_slots(tree: SumTree, bits: UInt32[Array, " N"]) -> Int[Array, " N"]:
    """The slot at `bits / 2**32` of the way through all priorities laid end to end. One with priority zero is never found.

    The whole numbers below 2**32 are shared out: a node hands its share on to its children, in whole numbers, until a slot has the one
    that was asked for. A float that measured the way would be too coarse: among a million slots its steps are a sixteenth of a slot.
    """
    share = jnp.full(bits.shape, 2**32 - 1, jnp.uint32)
    place = jnp.minimum(bits, share - 1)  # within the share
    row = jnp.zeros(bits.shape, jnp.int32)
    before = jnp.triu(jnp.ones((_WIDTH, _WIDTH), jnp.float32), 1)
    for level in reversed(tree):
        children = level.at[row].get(mode="promise_in_bounds")
        sums = jnp.matmul(children, before, precision=jax.lax.Precision.HIGHEST)
        part = sums / jnp.maximum(sums[:, -1:] + children[:, -1:], _TINY) * share[:, None].astype(jnp.float32)
        start = jnp.minimum(part.astype(jnp.uint32), share[:, None])
        begun = (start <= place[:, None]) & (children > 0)  # the last of these has the place
        end = jnp.where((children > 0) & ~begun, start, share[:, None]).min(1)
        first = jnp.where(begun, start, 0).max(1)
        place, share = place - first, end - first
        row = row * _WIDTH + jnp.where(begun, jnp.arange(_WIDTH), 0).max(1)
    return row
