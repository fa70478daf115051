"""Several choices at once as one-hot vectors: the random half of a world model's state (Hafner et al. 2021, DreamerV2)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rl4jax.core.errors import ShapeError
from rl4jax.core.number import Number, in_single

from .categorical import log_softmax, total_entropy, total_kl
from .chance import Chance, draw


class OneHots(eqx.Module):
    """G choices among K each, with probabilities `(1 - unimix) * softmax(logits) + unimix / K`; a sample is `[G, K]`, one 1 in each row.

    The uniform share keeps every divergence finite. A sample has the gradient of the probabilities: straight through the choice.

    >>> OneHots(jnp.zeros((2, 4)), unimix=0.0).entropy() / 2
    Array(1.3862944, dtype=float32)
    """

    logits: Float[Array, "G K"] = eqx.field(converter=in_single)
    unimix: Number = 0.01

    def __check_init__(self):
        if jnp.ndim(self.logits) != 2:
            raise ShapeError(f"OneHots.logits has shape {jnp.shape(self.logits)}; it must be [G, K]. For a batch use jax.vmap.")

    @property
    def probs(self) -> Float[Array, "G K"]:
        """The probabilities, uniform share included."""
        return (1 - self.unimix) * jnp.exp(log_softmax(self.logits)) + self.unimix / self.logits.shape[-1]

    @property
    def log_probs(self) -> Float[Array, "G K"]:
        """Their logarithms."""
        if isinstance(self.unimix, int | float) and self.unimix == 0:
            return log_softmax(self.logits)
        return jnp.log(self.probs)

    @property
    def chance(self) -> Chance:
        return Chance("gumbel", self.logits.shape)

    def sample_from(self, noise: Float[Array, "G K"]) -> Float[Array, "G K"]:
        """The choices that this noise leads to, by Gumbel-max."""
        return self._pick(self.log_probs + noise)

    def sample(self, key: PRNGKeyArray) -> Float[Array, "G K"]:
        """Random choices."""
        return self.sample_from(draw(self.chance, key))

    def mode(self) -> Float[Array, "G K"]:
        """The most likely choices, the first of equals."""
        return self._pick(self.logits)

    def entropy(self) -> Float[Array, ""]:
        """Of all choices together, in nats."""
        return total_entropy(self.log_probs)

    def kl(self, other: "OneHots") -> Float[Array, ""]:
        """`KL(self || other)` of all choices together, in nats."""
        if other.logits.shape != self.logits.shape:
            raise ShapeError(f"OneHots.kl: other has logits {other.logits.shape}, self {self.logits.shape}; both must be alike.")
        return total_kl(self.log_probs, other.log_probs)

    def _pick(self, score: Float[Array, "G K"]) -> Float[Array, "G K"]:
        chosen, probs = jax.nn.one_hot(score.argmax(-1), score.shape[-1]), self.probs
        return chosen + probs - jax.lax.stop_gradient(probs)
