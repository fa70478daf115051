"""Random numbers for loops in Python: those of many turns are drawn by one compiled call."""

import math
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

_MOST_TURNS, _MOST_NUMBERS = 64, 2**16
_BLOCKS: dict[tuple[Any, int], tuple[weakref.ref, Hashable, Any]] = {}


def drawn_ahead(draw: Callable[..., Any], key: PRNGKeyArray, turn: int, shape: tuple[int, ...]) -> np.ndarray:
    """What `draw(fold_in(key, turn), shape)` gives, as NumPy's; the numbers of the next turns are drawn along with it and kept.

    A pure function: the block that is kept is one that the same arguments would give again. It belongs to the key, as an object, and
    goes with it.
    """
    num_turns = max(min(_MOST_TURNS, _MOST_NUMBERS // math.prod(shape)), 1)
    block, place = (turn // num_turns, shape), (draw, id(key))
    known = _BLOCKS.get(place)
    if known is None or known[0]() is not key or known[1] != block:
        rows = np.asarray(_draw_block(draw, key, np.int32(block[0] * num_turns), num_turns, shape))
        known = _BLOCKS[place] = (weakref.ref(key, lambda _: _BLOCKS.pop(place, None)), block, rows)
    return known[2][turn % num_turns]


def _draw_block(draw, key, first, num_turns, shape):
    def one(turn):
        return draw(jax.random.fold_in(key, turn), shape)

    return jax.vmap(one)(first + np.arange(num_turns, dtype=np.int32))


_draw_block = jax.jit(_draw_block, static_argnames=("draw", "num_turns", "shape"))
