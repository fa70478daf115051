"""Pictures in which each pixel shines on its neighbours."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def blurred(images: Float[Array, "N A B C"], width: float, channels_last: bool) -> Float[Array, "N A B C"]:
    """Each pixel spread along both sides by `exp(-distance / width)`, and scaled: the squares of a lone one still sum to 1, far from edges.

    So two lone pixels differ the more, the farther they are apart; as they were, they differed by the same wherever they lay.
    """
    height, across = images.shape[1:3] if channels_last else images.shape[2:]
    spec = "hi,wj,nijc->nhwc" if channels_last else "hi,wj,ncij->nchw"
    return jnp.einsum(spec, spread(height, width), spread(across, width), images)


def spread(side: int, width: float) -> Float[np.ndarray, "S S"]:
    """How much of each pixel of a row arrives at each other."""
    place = np.arange(side)
    shares = np.exp(-np.abs(place[:, None] - place) / width)
    # Over an endless row the sum of exp(-2 |d| / width) is 1 / tanh(1 / width).
    return (shares * np.sqrt(np.tanh(1 / width))).astype(np.float32)
