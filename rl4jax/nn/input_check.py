"""The check of what a network of one example is called with. Shapes are static: it costs nothing at run time."""

from typing import Any

import jax.numpy as jnp

from rl4jax.core.errors import ShapeError


def check_input(name: str, x: Any, *shape: int) -> None:
    """Raise unless x has exactly this shape.

    >>> check_input("MLP: x", jnp.zeros((8, 4)), 4)
    Traceback (most recent call last):
    rl4jax.core.errors.ShapeError: MLP: x has shape (8, 4); it must be (4,). For a batch use jax.vmap.
    """
    if jnp.shape(x) != shape:
        raise ShapeError(f"{name} has shape {jnp.shape(x)}; it must be {shape}. For a batch use jax.vmap.")
