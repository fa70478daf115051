"""What all rings give back when they are asked for a batch."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int, PyTree


class Sample(NamedTuple):
    """Items drawn with replacement, the slots they are in, and how likely each was to be drawn."""

    items: PyTree
    slots: Int[Array | np.ndarray, " N"]
    probability: Float[Array | np.ndarray, " N"]
