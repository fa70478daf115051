"""Feature-wise linear modulation (Perez et al. 2018): a context scales and shifts features."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from rl4jax.core.errors import ShapeError, is_count, require

from .input_check import check_input
from .linear import Linear


class FiLM(eqx.Module):
    """`(1 + gamma(context)) * features + beta(context)`, with a linear layer for gamma and beta of each feature.

    The layer begins at zero, so that the features pass unchanged; it needs no key. Features are `[D]`, or `[D, H, W]` with the channels
    first: each channel is scaled and shifted as a whole.

    >>> film = FiLM(context_dim=3, feature_dim=2)
    >>> print(film(jnp.array([4.0, 5.0]), jnp.ones(3)))
    [4. 5.]
    """

    linear: Linear

    def __init__(self, context_dim: int, feature_dim: int):
        require(is_count(context_dim), "FiLM: context_dim", context_dim, "a positive integer")
        require(is_count(feature_dim), "FiLM: feature_dim", feature_dim, "a positive integer")
        self.linear = Linear(jnp.zeros((context_dim, 2 * feature_dim)), jnp.zeros(2 * feature_dim))

    def __call__(self, features: Float[Array, "D *HW"], context: Float[Array, "..."]) -> Float[Array, "D *HW"]:
        feature_dim = self.linear.bias.shape[0] // 2
        if features.ndim not in (1, 3) or features.shape[0] != feature_dim:
            raise ShapeError(
                f"FiLM: features has shape {features.shape}; it must be ({feature_dim},) or ({feature_dim}, H, W), channels first. "
                f"For a batch use jax.vmap."
            )
        check_input("FiLM: context", context, len(self.linear.weight))
        each = (2, feature_dim) + (1,) * (features.ndim - 1)
        gamma, beta = self.linear(context).reshape(each)
        return (1 + gamma) * features + beta
