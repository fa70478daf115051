"""Continuous actions without bounds."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from rl4jax.core.errors import ShapeError
from rl4jax.core.number import Number

from .chance import Chance
from .distribution import AbstractDistribution, Mask, check_action, check_temperature, refuse_mask, same_kind

LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0


class Normal(AbstractDistribution):
    """Independent normal distributions, one per element of an array: `a = mean + exp(log_std) * noise`.

    `log_std` broadcasts to `mean` and is clamped to [-5, 2] wherever it is used, so it has no gradient outside. Actions have no bounds:
    clip them at the environment, not here, since a clipped action has another density.

    >>> pi = Normal(jnp.zeros(2), jnp.float32(0.0))
    >>> print(round(float(pi.log_prob(jnp.zeros(2))), 4))
    -1.8379
    """

    mean: Float[Array, "*S"]
    log_std: Float[Array, "..."]

    def __check_init__(self):
        check_broadcasts("Normal.log_std", self.log_std, self.mean)

    @property
    def mask_size(self) -> int:
        return self.mean.size

    @property
    def maskable(self) -> bool:
        return False

    @property
    def chance(self) -> Chance:
        return Chance("normal", self.mean.shape)

    def sample_from(self, noise: Float[Array, "*S"]) -> Float[Array, "*S"]:
        """`mean + std * noise`; its gradient reaches mean and log_std."""
        return self.mean + jnp.exp(self.clamped_log_std()) * noise

    def log_prob(self, action: Float[Array, "*S"]) -> Float[Array, ""]:
        """`sum -((a - mean) / std)^2 / 2 - log_std - log(2 pi) / 2` over all elements."""
        check_action(self, action, self.mean.shape)
        log_std = self.clamped_log_std()
        return jnp.sum(-0.5 * jnp.square((action - self.mean) * jnp.exp(-log_std)) - log_std - 0.5 * math.log(2 * math.pi))

    def entropy(self, action: Float[Array, "*S"] | None = None) -> Float[Array, ""]:
        """`sum log_std + log(2 pi e) / 2`."""
        return jnp.sum(self.clamped_log_std() + 0.5 * math.log(2 * math.pi * math.e))

    def kl(self, other: AbstractDistribution, action: Float[Array, "*S"] | None = None) -> Float[Array, ""]:
        """`sum log(s_q / s_p) + (s_p^2 + (m_p - m_q)^2) / (2 s_q^2) - 1/2`."""
        other = same_kind(self, other)
        if other.mean.shape != self.mean.shape:
            raise ShapeError(
                f"{type(self).__name__}.kl: other.mean has shape {other.mean.shape}; it must be {self.mean.shape}, as of self."
            )
        log_std, other_log_std = self.clamped_log_std(), other.clamped_log_std()
        ratio, distance = log_std - other_log_std, (self.mean - other.mean) * jnp.exp(-other_log_std)
        return jnp.sum(0.5 * (jnp.expm1(2 * ratio) + jnp.square(distance)) - ratio)

    def mode(self) -> Float[Array, "*S"]:
        """The mean."""
        return self.mean

    def masked(self, mask: Mask) -> "Normal":
        """Itself; an error if there is a mask, because continuous actions have none."""
        refuse_mask(self, mask)
        return self

    def tempered(self, temperature: Number) -> "Normal":
        """The variance times the temperature. The clamp holds here too: `log_std` gets no larger than 2."""
        check_temperature(self, temperature)
        return type(self)(self.mean, self.clamped_log_std() + 0.5 * jnp.log(temperature))

    def clamped_log_std(self) -> Float[Array, "*S"]:
        """`log_std` as it is used: inside [-5, 2], one per element."""
        return jnp.broadcast_to(jnp.clip(self.log_std, LOG_STD_MIN, LOG_STD_MAX), self.mean.shape)


def check_broadcasts(name: str, x: ArrayLike, mean: Array) -> None:
    """Raise unless x broadcasts to the shape of mean."""
    try:
        fits = np.broadcast_shapes(jnp.shape(x), mean.shape) == mean.shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"{name} has shape {jnp.shape(x)}; it must be that of mean, {mean.shape}, or broadcast to it.")
