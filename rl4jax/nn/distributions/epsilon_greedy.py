"""The best choice by its value, and now and then any."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int32

from rl4jax.core.number import Number
from rl4jax.gradients import safe

from .categorical import LOWEST, Categorical
from .chance import Chance
from .distribution import AbstractDistribution, Mask, check_mask, check_vector, same_kind


class EpsilonGreedy(AbstractDistribution):
    """The choice with the highest value, or with probability `epsilon` any of the allowed ones, all alike.

    >>> pi = EpsilonGreedy(jnp.array([1.0, 5.0]), jnp.array(0.5))
    >>> print(jnp.exp(pi.log_prob(jnp.int32(1))))
    0.75
    """

    q_values: Float[Array, " A"]
    epsilon: Float[Array | np.ndarray, ""]
    allowed: Bool[Array, " A"]

    def __init__(self, q_values: Float[Array, " A"], epsilon: Float[Array | np.ndarray, ""], allowed: Bool[Array, " A"] | None = None):
        check_vector("EpsilonGreedy.q_values", q_values)
        self.q_values = q_values
        self.epsilon = epsilon
        self.allowed = jnp.ones(q_values.shape, bool) if allowed is None else allowed

    @property
    def mask_size(self) -> int:
        return self.q_values.shape[0]

    @property
    def maskable(self) -> bool:
        return True

    def categorical(self) -> Categorical:
        """The same distribution by its log-probabilities."""
        best = jnp.arange(self.mask_size) == self.mode()
        share = self.epsilon / jnp.maximum(self.allowed.sum(), 1)
        prob = jnp.where(best, 1 - self.epsilon, 0.0) + jnp.where(self.allowed, share, 0.0)
        return Categorical(safe.where(prob > 0, jnp.log, prob, LOWEST))

    @property
    def chance(self) -> Chance:
        """Two numbers: whether to take any choice, and which."""
        return Chance("uniform", (2,))

    def sample_from(self, noise: Float[Array, "2"]) -> Int32[Array, ""]:
        """The best choice, or if the first number is below `epsilon` any of the allowed ones."""
        count = jnp.cumsum(self.allowed)
        place = jnp.minimum(jnp.floor(noise[1] * count[-1]), count[-1] - 1)  # rounding must not lead past the last
        return jnp.where(noise[0] < self.epsilon, jnp.argmax(count > place), self.mode()).astype(jnp.int32)

    def log_prob(self, action: Int[Array, ""]) -> Float[Array, ""]:
        """`log(1 - epsilon + epsilon / K)` of the best of K allowed choices, `log(epsilon / K)` of the others."""
        return self.categorical().log_prob(action)

    def entropy(self, action: Int[Array, ""] | None = None) -> Float[Array, ""]:
        """`-sum_a p(a) log p(a)`."""
        return self.categorical().entropy()

    def kl(self, other: AbstractDistribution, action: Int[Array, ""] | None = None) -> Float[Array, ""]:
        """`sum_a p(a) (log p(a) - log q(a))`; huge but finite where q never does what p does."""
        return self.categorical().kl(same_kind(self, other).categorical())

    def mode(self) -> Int32[Array, ""]:
        """The allowed choice with the highest value, the first of equals."""
        least = jnp.finfo(self.q_values.dtype).min  # above what is forbidden, even if all values are -inf
        return jnp.argmax(jnp.where(self.allowed, jnp.maximum(self.q_values, least), -jnp.inf)).astype(jnp.int32)

    def tempered(self, temperature: Number) -> Categorical:
        """The same probabilities to the power of `1 / temperature`."""
        return self.categorical().tempered(temperature)

    def masked(self, mask: Mask) -> "EpsilonGreedy":
        """The best and the random choice among those that the mask allows."""
        if mask is None:
            return self
        check_mask(self, mask)
        return EpsilonGreedy(self.q_values, self.epsilon, self.allowed & mask)
