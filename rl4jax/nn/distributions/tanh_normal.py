"""Continuous actions inside a box."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from rl4jax.core.errors import ConfigError, require
from rl4jax.core.number import Number, is_concrete

from .chance import Chance
from .distribution import AbstractDistribution, Mask, check_action, refuse_mask, same_kind
from .normal import Normal, check_broadcasts

INSIDE = 1 - 1e-6  # float32 cannot tell actions nearer to a bound apart; they count as if they were here


class TanhNormal(AbstractDistribution):
    """A `Normal` squashed into a box: `a = (low + high) / 2 + (high - low) / 2 * tanh(u)`, with `u ~ Normal(mean, log_std)`.

    `mean` and `log_std` are those of u, and log_std is clamped as there. Actions within a millionth of a bound have the density of
    that distance, so it is finite in the closed box. `mode` is the squashed mean, which is not where the density of a is largest.

    >>> pi = TanhNormal(jnp.zeros(1), jnp.zeros(1), low=0.0, high=10.0)
    >>> print(pi.mode())
    [5.]
    """

    mean: Float[Array, "*S"]
    log_std: Float[Array, "..."]
    low: ArrayLike
    high: ArrayLike

    def __check_init__(self):
        check_broadcasts("TanhNormal.log_std", self.log_std, self.mean)
        check_broadcasts("TanhNormal.low", self.low, self.mean)
        check_broadcasts("TanhNormal.high", self.high, self.mean)
        if is_concrete(self.low) and is_concrete(self.high):
            low, high = np.asarray(self.low), np.asarray(self.high)
            require(bool(np.isfinite(low).all()), "TanhNormal.low", self.low, "finite", "For actions without bounds use Normal.")
            require(bool(np.isfinite(high).all()), "TanhNormal.high", self.high, "finite", "For actions without bounds use Normal.")
            require(bool((low < high).all()), "TanhNormal.low", self.low, f"less than high = {self.high!r} everywhere")

    @property
    def mask_size(self) -> int:
        return self.mean.size

    @property
    def maskable(self) -> bool:
        return False

    @property
    def normal(self) -> Normal:
        """The distribution of u, before it is squashed."""
        return Normal(self.mean, self.log_std)

    @property
    def chance(self) -> Chance:
        """That of the normal."""
        return Chance("normal", self.mean.shape)

    def sample_from(self, noise: Float[Array, "*S"]) -> Float[Array, "*S"]:
        """A squashed sample of the normal; its gradient reaches mean and log_std."""
        return self._squash(self.normal.sample_from(noise))

    def log_prob(self, action: Float[Array, "*S"]) -> Float[Array, ""]:
        """`log Normal(u) - sum log |da/du|` at the u that is squashed to the action."""
        check_action(self, action, self.mean.shape)
        unit = (action - self._centre) / self._scale
        u = jnp.arctanh(jnp.clip(unit, -INSIDE, INSIDE))
        log_slope = 2 * (math.log(2) - u - jax.nn.softplus(-2 * u))  # log(1 - tanh(u)^2), without its cancellation
        return self.normal.log_prob(u) - jnp.sum(log_slope + jnp.log(self._scale))

    def entropy(self, action: Float[Array, "*S"] | None = None) -> Float[Array, ""]:
        """`H[u] + sum E[log |da/du|]`, where `E[log(1 - tanh(u)^2)] = -2 E[log cosh(u)]` has no closed form.

        The estimate has no randomness and is off by less than 1e-4 per element, whatever mean and log_std are: see `mean_log_cosh`.
        """
        normal = self.normal
        log_slope = -2 * mean_log_cosh(self.mean, jnp.exp(normal.clamped_log_std()))
        return normal.entropy() + jnp.sum(log_slope + jnp.log(self._scale))

    def kl(self, other: AbstractDistribution, action: Float[Array, "*S"] | None = None) -> Float[Array, ""]:
        """`KL` of the two normals: exact, because both are squashed by the same bijection. Bounds must be the same."""
        other = same_kind(self, other)
        for name, mine, theirs in (("low", self.low, other.low), ("high", self.high, other.high)):
            if is_concrete(mine) and is_concrete(theirs) and not np.all(np.asarray(mine) == np.asarray(theirs)):
                raise ConfigError(f"TanhNormal.kl: other.{name} = {theirs} and self.{name} = {mine} must be the same.")
        return self.normal.kl(other.normal)

    def mode(self) -> Float[Array, "*S"]:
        """The squashed mean, which is also the median."""
        return self._squash(self.mean)

    def masked(self, mask: Mask) -> "TanhNormal":
        """Itself; an error if there is a mask, because continuous actions have none."""
        refuse_mask(self, mask)
        return self

    def tempered(self, temperature: Number) -> "TanhNormal":
        """The squashed tempered normal: `p(u)^(1 / temperature)` of u, not of the action."""
        return TanhNormal(self.mean, self.normal.tempered(temperature).log_std, self.low, self.high)

    @property
    def _centre(self) -> Float[Array, "..."]:
        return 0.5 * jnp.asarray(self.low, self.mean.dtype) + 0.5 * jnp.asarray(self.high, self.mean.dtype)

    @property
    def _scale(self) -> Float[Array, "..."]:
        return 0.5 * jnp.asarray(self.high, self.mean.dtype) - 0.5 * jnp.asarray(self.low, self.mean.dtype)

    def _squash(self, u: Float[Array, "*S"]) -> Float[Array, "*S"]:
        action = self._centre + self._scale * jnp.tanh(u)
        return jnp.clip(action, self.low, self.high)  # rounding may leave the box by a bit


# The logistic distribution of scale 1/2 as a mixture of three normals. Fitted once so that the largest error of `mean_log_cosh` over all
# means at std = 0 is least: 4e-5. Any std > 0 averages that error, so it is never larger.
WEIGHTS = np.array([0.32421764, 0.56591724, 0.10986512], np.float32)
STDS = np.array([0.57667946, 0.92140484, 1.45971284], np.float32)


def mean_log_cosh(mean: Float[Array, "*S"], std: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """`E[log cosh(u)]` for `u ~ Normal(mean, std)`, within 4e-5.

    `log(2 cosh(u)) = E|u + L|` for a logistic L of scale 1/2. With L a mixture of normals, u + L is one too, and
    `E|x| = s sqrt(2 / pi) exp(-m^2 / (2 s^2)) + m erf(m / (s sqrt(2)))` for `x ~ Normal(m, s)`. Gauss-Hermite quadrature would need
    about a hundred nodes for 1e-2 at std = e^2, where log cosh looks like |u|.
    """
    spread = jnp.sqrt(jnp.square(std[..., None]) + STDS**2)
    unit = mean[..., None] / (spread * math.sqrt(2))
    folded = spread * (math.sqrt(2 / math.pi) * jnp.exp(-jnp.square(unit))) + mean[..., None] * jax.lax.erf(unit)
    return jnp.sum(WEIGHTS * folded, -1) - math.log(2)
