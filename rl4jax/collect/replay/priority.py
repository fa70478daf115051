"""The rules of priorities, for arrays of JAX and of NumPy alike."""

import functools
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Array, Float, UInt32

from rl4jax.core.errors import ShapeError, require
from rl4jax.core.number import is_concrete

AnyArray = TypeVar("AnyArray", Array, np.ndarray)
_LEAST = 1e-6  # so that an item without error is drawn at times
_MOST = 1e30  # so that the sum over a whole ring is a float32


def check_alpha(alpha: Any, what: str) -> None:
    if is_concrete(alpha):
        good = np.asarray(alpha).dtype.kind in "iuf" and bool((np.isfinite(alpha) & (np.asarray(alpha) >= 0)).all())
        require(good, f"{what}: alpha", alpha, "zero or more", "0 draws all items alike, 1 in proportion to their errors.")


def check_errors(slots: Any, error: Any, what: str) -> None:
    if np.shape(slots) != np.shape(error) or len(np.shape(slots)) != 1:
        raise ShapeError(f"{what}: slots have shape {np.shape(slots)} and error {np.shape(error)}; both must be (N,).")


def priority_of_error(error: Float[AnyArray, " N"], alpha: Float[AnyArray, ""], largest: Float[AnyArray, ""]) -> Float[AnyArray, " N"]:
    """`(|error| + 1e-6) ** alpha`, at most 1e30; the largest so far for an error that is not finite, which would spoil every sum."""
    xp: Any = error.__array_namespace__()
    priority = (xp.abs(error) + _LEAST) ** alpha
    return xp.minimum(xp.where(xp.isfinite(priority), priority, largest), _MOST)


def stratify(bits: UInt32[AnyArray, " N"]) -> UInt32[AnyArray, " N"]:
    """Random places in `[0, 2**32)`, the k-th in the k-th of N equal parts. Within a part all places are alike but for some N of them.

    >>> stratify(np.array([5, 5, 2**31 + 5, 2**32 - 1], np.uint32)).tolist() == [5, 2**30 + 5, 2**31 + 5, 2**32 - 1]
    True
    """
    if len(bits) < 2:
        return bits
    start, width = _parts(len(bits))
    places: Any = start + bits % width
    return places


@functools.lru_cache(maxsize=8)
def _parts(num: int) -> tuple[np.ndarray, np.ndarray]:
    edges = np.arange(num + 1, dtype=np.uint64) * np.uint64(2**32) // np.uint64(num)
    return edges[:-1].astype(np.uint32), np.diff(edges).astype(np.uint32)
