"""NumPy's arrays, one or a tree of them, for loops in Python: `jax.tree` takes longer for a single one than most functions do."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree


def map_arrays(function: Callable[[Any], Any], tree: PyTree) -> PyTree:
    """`jax.tree.map`."""
    if isinstance(tree, np.ndarray):
        return function(tree)
    return None if tree is None else jax.tree.map(function, tree)


def arrays_of(tree: PyTree) -> Sequence[Any]:
    """`jax.tree.leaves`."""
    return (tree,) if isinstance(tree, np.ndarray) else jax.tree.leaves(tree)


def read_only(x: np.ndarray) -> np.ndarray:
    """The same array, which from now on nobody can write into, as with JAX's."""
    x.setflags(write=False)
    return x
