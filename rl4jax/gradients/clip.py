"""Global-norm gradient clipping."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

from rl4jax.core.errors import require
from rl4jax.core.number import Number, in_single, is_concrete


def clip_by_global_norm(grads: PyTree, max_norm: Number) -> tuple[PyTree, Float[Array, ""]]:
    """Scale all gradients together by `min(1, max_norm / (norm + 1e-6))`, as PyTorch does; 0 leaves them. Returns their norm too.

    One norm over all parameters keeps the direction of the step; clipping each parameter alone does not.
    """
    if is_concrete(max_norm):
        fits = bool(np.all(np.asarray(max_norm) >= 0))
        require(fits, "clip_by_global_norm: max_norm", max_norm, "positive, or 0 for no clipping")
    norm = optax.tree.norm(jax.tree.map(in_single, grads))
    scale = jnp.where(jnp.asarray(max_norm) > 0, jnp.minimum(1.0, max_norm / (norm + 1e-6)), 1.0)
    return jax.tree.map(lambda g: g * scale.astype(g.dtype), grads), norm
