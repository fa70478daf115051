"""Random numbers for loops in Python: those of many turns are drawn by one compiled call."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from .on_device import once

_MOST_TURNS, _MOST_NUMBERS = 512, 2**16


def drawn_ahead(draw: Callable[..., Any], key: PRNGKeyArray, turn: int, shape: tuple[int, ...]) -> np.ndarray:
    """What `draw(fold_in(key, turn), shape)` gives, as NumPy's; the numbers of the next turns are drawn along with it and kept.

    A pure function: the block that is kept is one that the same arguments would give again. It belongs to the key, as an object, and
    goes with it.
    """
    num_turns = max(min(_MOST_TURNS, _MOST_NUMBERS // math.prod(shape)), 1)
    block, blocks = (turn // num_turns, shape), once(no_blocks, key)
    known = blocks.get(draw)
    if known is None or known[0] != block:
        rows = np.asarray(_draw_block(draw, key, np.int32(block[0] * num_turns), num_turns, shape))
        known = blocks[draw] = (block, rows)
    return known[1][turn % num_turns]


def no_blocks(key: PRNGKeyArray) -> dict[Callable, tuple[Any, np.ndarray]]:
    """Of each function that draws, the last block and which one it is."""
    return {}


@functools.partial(jax.jit, static_argnames=("draw", "num_turns", "shape"))
def _draw_block(draw, key, first, num_turns, shape):
    def one(turn):
        return draw(jax.random.fold_in(key, turn), shape)

    return jax.vmap(one)(first + np.arange(num_turns, dtype=np.int32))
