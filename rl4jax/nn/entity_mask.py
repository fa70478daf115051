"""Masks over entities, true = attend: their checks, and what they do to inputs and to a softmax."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from rl4jax.core.errors import ShapeError

EntityMask = Shaped[Array | np.ndarray, "..."] | None  # bool or 0 and 1, [S], or [Sq, Sk] for pairs; others are refused with our words


def check_entities(name: str, x: Any, width: int) -> None:
    """Raise unless x is `[S, width]`: one row per entity."""
    if jnp.ndim(x) != 2 or x.shape[1] != width:
        raise ShapeError(
            f"{name} has shape {jnp.shape(x)}; it must be [S, {width}], a row of {width} numbers per entity. For a batch use jax.vmap."
        )


def as_entity_mask(name: str, mask: Any, *shapes: tuple[int, ...]) -> Bool[Array, "..."]:
    """The mask as bools. Raise unless it has bools or integers, such as the int8 of a `MultiBinary`, in one of the shapes."""
    dtype = jnp.result_type(mask)
    if jnp.shape(mask) not in shapes or not (dtype == jnp.bool_ or jnp.issubdtype(dtype, jnp.integer)):
        wanted = " or ".join(str(shape) for shape in shapes)
        raise ShapeError(f"{name} is {dtype} {jnp.shape(mask)}; it must be bool {wanted}, true = attend, or 0 and 1 as integers.")
    return jnp.asarray(mask, bool)


def leave_out(x: Float[Array, "S D"], present: Bool[Array | np.ndarray, " S"]) -> Float[Array, "S D"]:
    """Zeros for what is not there. Before any product: a weight of 0 does not silence a NaN, neither forwards nor in a gradient."""
    return jnp.where(present[:, None], x, 0.0)


def masked_softmax(scores: Float[Array, "*S N"], mask: Bool[Array | np.ndarray, "*M N"] | None) -> Float[Array, "*S N"]:
    """Softmax over what the mask allows; zeros, with zero gradients, where it allows nothing.

    >>> print(masked_softmax(jnp.zeros((2, 3)), jnp.array([[True, False, True], [False, False, False]])))
    [[0.5 0.  0.5]
     [0.  0.  0. ]]
    """
    if scores.shape[-1] == 0:  # of no entities at all
        return scores
    if mask is None:
        return jax.nn.softmax(scores)
    some = mask.any(-1, keepdims=True)
    weights = jax.nn.softmax(jnp.where(mask, scores, jnp.where(some, -jnp.inf, 0.0)))  # where nothing is allowed, equals: no NaN
    return jnp.where(mask, weights, 0.0)
