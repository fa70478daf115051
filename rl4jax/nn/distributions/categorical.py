"""One choice among A."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int32

from rl4jax.core.number import Number, in_single
from rl4jax.gradients import safe

from .chance import Chance
from .distribution import AbstractDistribution, Mask, check_action, check_mask, check_temperature, check_vector, same_kind

FORBIDDEN = -1e38  # the logit of a forbidden choice: far below any that a network gives
LOWEST = -1e9  # no log-probability is smaller than about this, so that sums, squares and gradients stay finite


class Categorical(AbstractDistribution):
    """One of A choices with probabilities `softmax(logits)`.

    Values and gradients are finite for any finite logits: log-probabilities below -1e9 are held there. A mask that allows nothing
    gives the uniform distribution, not NaN.

    >>> pi = Categorical(jnp.array([1.0, 5.0, 1.0])).masked(jnp.array([True, False, True]))
    >>> print(jnp.exp(pi.log_prob(jnp.int32(0))), jnp.exp(pi.log_prob(jnp.int32(1))))
    0.5 0.0
    """

    logits: Float[Array, " A"] = eqx.field(converter=in_single)

    def __check_init__(self):
        check_vector("Categorical.logits", self.logits)

    @property
    def mask_size(self) -> int:
        return self.logits.shape[0]

    @property
    def maskable(self) -> bool:
        return True

    @property
    def chance(self) -> Chance:
        return Chance("gumbel", self.logits.shape)

    def sample_from(self, noise: Float[Array, " A"]) -> Int32[Array, ""]:
        """A random choice, by Gumbel-max."""
        return jnp.argmax(log_softmax(self.logits) + noise).astype(jnp.int32)

    def log_prob(self, action: Int[Array, ""]) -> Float[Array, ""]:
        """`log softmax(logits)[action]`; about -1e9 for a choice that is forbidden or does not exist."""
        check_action(self, action, ())
        return choose(log_softmax(self.logits), action)

    def entropy(self, action: Int[Array, ""] | None = None) -> Float[Array, ""]:
        """`-sum_a p(a) log p(a)`."""
        return total_entropy(log_softmax(self.logits))

    def kl(self, other: AbstractDistribution, action: Int[Array, ""] | None = None) -> Float[Array, ""]:
        """`sum_a p(a) (log p(a) - log q(a))`; huge but finite where q forbids what p does."""
        return total_kl(log_softmax(self.logits), log_softmax(same_kind(self, other).logits))

    def mode(self) -> Int32[Array, ""]:
        """The most probable choice, the first of equals."""
        return jnp.argmax(self.logits).astype(jnp.int32)

    def masked(self, mask: Mask) -> "Categorical":
        """The allowed choices with their probabilities scaled to sum to one."""
        if mask is None:
            return self
        check_mask(self, mask)
        return Categorical(forbid(self.logits, mask))

    def tempered(self, temperature: Number) -> "Categorical":
        """`softmax(logits / temperature)`."""
        check_temperature(self, temperature)
        return Categorical(temper(self.logits, temperature))


# The mathematics, for one head or for many along leading axes.


def log_softmax(logits: Float[Array, "*H A"]) -> Float[Array, "*H A"]:
    """`logits - log sum exp(logits)`, held above `LOWEST` so that no difference of logits overflows."""
    top = jax.lax.stop_gradient(logits.max(-1, keepdims=True))
    shifted = jnp.maximum(logits - top, LOWEST)
    return shifted - jnp.log(jnp.exp(shifted).sum(-1, keepdims=True))


def forbid(logits: Float[Array, "*H A"], mask: Bool[Array | np.ndarray, "*H A"]) -> Float[Array, "*H A"]:
    """Allowed logits shifted to a maximum of 0, the others at `FORBIDDEN`, which is far below 0 however small the allowed ones were."""
    allowed = jnp.where(mask, logits, jnp.finfo(logits.dtype).min)
    top = jax.lax.stop_gradient(allowed.max(-1, keepdims=True))
    return jnp.where(mask, logits - top, FORBIDDEN)


def temper(logits: Float[Array, "*H A"], temperature: Number) -> Float[Array, "*H A"]:
    """`logits / temperature`, shifted to a maximum of 0 first so that nothing overflows; what is impossible is `FORBIDDEN`."""
    shifted = logits - jax.lax.stop_gradient(logits.max(-1, keepdims=True))
    possible = ~(shifted <= LOWEST)  # a NaN is not impossible: it stays and is seen
    return safe.where(possible, lambda x: x / temperature, shifted, FORBIDDEN, stand_in=0.0)


def choose(log_probs: Float[Array, "*H A"], action: Int[Array, "*H"]) -> Float[Array, "*H"]:
    """`log_probs[..., action]` as a sum over a one-hot: the gradient of an index is a scatter, which is slow."""
    chosen = jnp.arange(log_probs.shape[-1]) == jnp.expand_dims(action, -1)
    return jnp.where(chosen.any(-1), jnp.sum(log_probs, -1, where=chosen), LOWEST)


def total_entropy(log_probs: Float[Array, "*H A"]) -> Float[Array, ""]:
    """Entropy of all heads together; `p log p` is 0 where p is, because log p is finite."""
    return -(jnp.exp(log_probs) * log_probs).sum()


def total_kl(log_probs: Float[Array, "*H A"], other: Float[Array, "*H A"]) -> Float[Array, ""]:
    """KL divergence of all heads together."""
    return (jnp.exp(log_probs) * (log_probs - other)).sum()
