"""Which items belong together."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from jaxtyping import Int

from rl4jax.core.errors import ShapeError


def group_slots(slots: Int[np.ndarray, " N"], keys: Any, what: str) -> dict[Hashable, Int[np.ndarray, "_"]]:
    """The slots of each key, in the order they come in; the keys too are in the order in which they first come.

    >>> {key: slots.tolist() for key, slots in group_slots(np.array([7, 8, 9]), [5, 3, 5], "doctest").items()}
    {5: [7, 9], 3: [8]}
    """
    keys = np.asarray(keys)
    if keys.shape != slots.shape:
        raise ShapeError(f"{what}: key_of returned shape {keys.shape}; it must be {slots.shape}, one key for each item.")
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    groups = np.split(order, 1 + np.flatnonzero(ordered[1:] != ordered[:-1])) if len(order) else []
    groups.sort(key=lambda members: members[0])
    return {keys[members[0]].item(): slots[members] for members in groups}
