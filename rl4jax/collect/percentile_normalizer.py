"""Advantages brought to a common size by the spread of returns (Hafner et al. 2023)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from rl4jax.core.errors import ShapeError, require
from rl4jax.core.number import Number, is_concrete


class PercentileNormalizer(NamedTuple):
    """Divides by the distance between a low and a high percentile of the returns, averaged over time, but never by less than 1.

    The floor leaves small returns small: where nothing was won yet, there is only noise to enlarge. Percentiles leave out the rare huge
    return that would rule a standard deviation.

    >>> normalizer = PercentileNormalizer.create(low=0.0, high=1.0).update(jnp.array([0.0, 4.0]))
    >>> normalizer.normalize(jnp.array([2.0])).tolist()
    [0.5]
    """

    low: Float[Array, ""]  # share of the returns below the low percentile
    high: Float[Array, ""]
    decay: Float[Array, ""]  # how much of the old average stays at an update
    low_return: Float[Array, ""]
    high_return: Float[Array, ""]
    seeded: Bool[Array, ""]  # whether there was an update

    @classmethod
    def create(cls, low: Number = 0.05, high: Number = 0.95, decay: Number = 0.99, start: Number | None = None) -> "PercentileNormalizer":
        """No data yet: the scale is 1. The averages begin with the first data, or at `start`: DreamerV3 lets them grow from 0."""
        if is_concrete(low) and is_concrete(high):
            ordered = bool(np.all((np.asarray(low) >= 0) & (np.asarray(low) < np.asarray(high)) & (np.asarray(high) <= 1)))
            rule = "shares with 0 <= low < high <= 1"
            require(ordered, "PercentileNormalizer: (low, high)", (low, high), rule, "The 5th percentile is 0.05.")
        if is_concrete(decay):
            good = bool(np.all((np.asarray(decay) >= 0) & (np.asarray(decay) < 1)))
            require(good, "PercentileNormalizer: decay", decay, "in [0, 1)", "With 1 nothing but the first update would ever count.")
        low, high, decay = (jnp.asarray(x, jnp.float32) for x in (low, high, decay))  # a checkpoint holds them
        begun = jnp.asarray(0.0 if start is None else start, jnp.float32)
        return cls(low, high, decay, begun, jnp.copy(begun), jnp.asarray(start is not None))

    def update(self, returns: Float[Array | np.ndarray, "*N"]) -> "PercentileNormalizer":
        """Take in returns of any shape: `average = decay * average + (1 - decay) * percentile`. The first are taken as they are.

        Returns that are not finite do not count: `rollout.episode_return` is NaN where no episode ended.
        """
        returns = jnp.asarray(returns, jnp.float32)
        if not jnp.size(returns):
            raise ShapeError(f"PercentileNormalizer.update: returns has shape {jnp.shape(returns)}; at least one is needed.")
        shares = jnp.stack([self.low, self.high])
        finite = jnp.isfinite(returns)
        returns = jax.lax.stop_gradient(jnp.where(finite, returns, jnp.nan))
        found = jnp.nanquantile(returns, shares).astype(jnp.float32)
        keep = jnp.where(self.seeded, self.decay, 0.0)
        average = jnp.stack([self.low_return, self.high_return])
        low_return, high_return = jnp.where(finite.any(), keep * average + (1 - keep) * found, average)
        return self._replace(low_return=low_return, high_return=high_return, seeded=self.seeded | finite.any())

    @property
    def scale(self) -> Float[Array, ""]:
        """`max(1, high_return - low_return)`."""
        return jnp.maximum(1.0, self.high_return - self.low_return)

    def normalize(self, advantages: Float[Array, "*N"]) -> Float[Array, "*N"]:
        """`advantages / scale`: their mean and their sign stay."""
        return advantages / self.scale
