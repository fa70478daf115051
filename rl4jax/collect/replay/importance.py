"""Weights that undo the bias of a prioritised sample."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from rl4jax.core.errors import require
from rl4jax.core.number import Number, is_concrete


def importance_weights(
    probability: Float[Array | np.ndarray, " N"], size: Int[Array | np.ndarray, ""] | int, beta: Number
) -> Float[Array, " N"]:
    """How much each item of a sample should count: `(size * probability) ** -beta`, divided by the largest of the sample.

    With beta 1 the mean over a sample is that of the ring, apart from the division; with 0 nothing is corrected (Schaul et al. 2016,
    section 3.4, who let beta rise to 1 by the end of a run).

    >>> importance_weights(jnp.array([0.5, 0.25]), 4, beta=1.0).tolist()
    [0.5, 1.0]
    """
    if is_concrete(beta):
        require(bool(np.all((np.asarray(beta) >= 0) & (np.asarray(beta) <= 1))), "importance_weights: beta", beta, "in [0, 1]")
    weight = jnp.power(size * jnp.asarray(probability, jnp.float32), -beta)
    return weight / weight.max()
