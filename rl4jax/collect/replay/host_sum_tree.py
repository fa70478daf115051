"""The sum tree of `sum_tree.py` in NumPy: float64, and written in place."""

import itertools

import numpy as np
from jaxtyping import Float64, Int, UInt32

_WIDTH = 16
HostSumTree = tuple[Float64[np.ndarray, "_ 16"], ...]


def make_tree(capacity: int) -> HostSumTree:
    """All priorities zero."""
    num_rows = -(-capacity // _WIDTH)
    level = np.zeros((num_rows, _WIDTH))
    return (level,) if num_rows == 1 else (level, *make_tree(num_rows))


def total_priority(tree: HostSumTree) -> np.float64:
    return tree[-1].sum()


def get_priority(tree: HostSumTree, slots: Int[np.ndarray, " N"]) -> Float64[np.ndarray, " N"]:
    return tree[0].reshape(-1)[slots]


def set_priority(tree: HostSumTree, slots: Int[np.ndarray, " N"], priority: Float64[np.ndarray, " N"]) -> None:
    """Give slots new priorities. If a slot comes twice, the larger holds, whatever the order."""
    flat = tree[0].reshape(-1)
    flat[slots] = priority
    np.maximum.at(flat, slots, priority)
    row = slots
    for below, above in itertools.pairwise(tree):
        row = row // _WIDTH
        above.reshape(-1)[row] = below[row].sum(1)


def find_slots(tree: HostSumTree, bits: UInt32[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """The slot at `bits / 2**32` of the way through all priorities laid end to end. One with priority zero is never found."""
    way = bits * (total_priority(tree) * 2.0**-32)
    row, every = np.zeros(len(bits), np.int64), np.arange(len(bits))
    for level in reversed(tree):
        children = level[row]
        starts = children.cumsum(1) - children
        begun = (starts <= way[:, None]) & (children > 0)  # the last of these holds the place, also if rounding led past the end
        column = _WIDTH - 1 - begun[:, ::-1].argmax(1)
        row = row * _WIDTH + column
        way = way - starts[every, column]
    return row
