"""Several independent choices."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int32

from rl4jax.core.errors import ShapeError, is_count, require
from rl4jax.core.number import Number, in_single

from .categorical import choose, forbid, log_softmax, temper, total_entropy, total_kl
from .chance import Chance
from .distribution import AbstractDistribution, Mask, check_action, check_mask, check_temperature, check_vector, same_kind


class MultiCategorical(AbstractDistribution):
    """Independent choices, head i among `nvec[i]`: the actions of a `MultiDiscrete` space.

    `logits` are those of all heads one after the other, and each head has its own softmax: `log p(a) = sum_i log softmax(logits_i)[a_i]`.
    Heads of different sizes are padded to the largest with forbidden choices.

    >>> pi = MultiCategorical(jnp.zeros(5), nvec=(3, 2))
    >>> print(round(float(jnp.exp(pi.log_prob(jnp.array([2, 0])))), 4))
    0.1667
    """

    logits: Float[Array, " A"]
    nvec: tuple[int, ...] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, logits: Float[Array, " A"], nvec: tuple[int, ...], shape: tuple[int, ...] | None = None):
        self.logits, self.nvec = in_single(logits), nvec
        self.shape = (len(nvec),) if shape is None else shape

    def __check_init__(self):
        check_vector("MultiCategorical.logits", self.logits)
        sizes = len(self.nvec) > 0 and all(is_count(n) for n in self.nvec)
        require(sizes, "MultiCategorical.nvec", self.nvec, "a tuple of positive integers, one per head")
        if self.logits.shape != (sum(self.nvec),):
            raise ShapeError(
                f"MultiCategorical.logits has shape {self.logits.shape}; nvec = {self.nvec} needs ({sum(self.nvec)},), all heads in a row."
            )
        if math.prod(self.shape) != len(self.nvec):
            raise ShapeError(
                f"MultiCategorical.shape = {self.shape} must hold {len(self.nvec)} actions, one per head of nvec = {self.nvec}."
            )

    @property
    def mask_size(self) -> int:
        return self.logits.shape[0]

    @property
    def maskable(self) -> bool:
        return True

    @property
    def chance(self) -> Chance:
        """One row per head."""
        return Chance("gumbel", (len(self.nvec), max(self.nvec)))

    def sample_from(self, noise: Float[Array, "H N"]) -> Int32[Array, "..."]:
        """A random choice of each head, by Gumbel-max."""
        return jnp.argmax(self._log_probs() + noise, -1).astype(jnp.int32).reshape(self.shape)

    def log_prob(self, action: Int[Array, "..."]) -> Float[Array, ""]:
        """`sum_i log p_i(a_i)`."""
        check_action(self, action, self.shape)
        return choose(self._log_probs(), jnp.ravel(action)).sum()

    def entropy(self, action: Int[Array, "..."] | None = None) -> Float[Array, ""]:
        """The sum of the entropies of the heads."""
        return total_entropy(self._log_probs())

    def kl(self, other: AbstractDistribution, action: Int[Array, "..."] | None = None) -> Float[Array, ""]:
        """The sum of the divergences of the heads."""
        other = same_kind(self, other)
        if other.nvec != self.nvec:
            raise ShapeError(f"MultiCategorical.kl: other.nvec = {other.nvec} and self.nvec = {self.nvec} must be the same.")
        return total_kl(self._log_probs(), other._log_probs())

    def mode(self) -> Int32[Array, "..."]:
        """The most probable choice of each head."""
        return jnp.argmax(self._padded(), -1).astype(jnp.int32).reshape(self.shape)

    def masked(self, mask: Mask) -> "MultiCategorical":
        """Each head without its forbidden choices; the mask is that of all heads one after the other."""
        if mask is None:
            return self
        check_mask(self, mask)
        return self._of(forbid(self._heads(self.logits), self._heads(mask)))

    def tempered(self, temperature: Number) -> "MultiCategorical":
        """Each head at that temperature."""
        check_temperature(self, temperature)
        return self._of(temper(self._padded(), temperature))

    def _of(self, heads: Float[Array, "H N"]) -> "MultiCategorical":
        """The same choices with other logits, one row per head."""
        flat = jnp.concatenate([head[:n] for head, n in zip(heads, self.nvec, strict=True)]) if self._ragged else heads.ravel()
        return MultiCategorical(flat, self.nvec, self.shape)

    @property
    def _ragged(self) -> bool:
        return len(set(self.nvec)) > 1

    def _log_probs(self) -> Float[Array, "H N"]:
        return log_softmax(self._padded())

    def _padded(self) -> Float[Array, "H N"]:
        """The logits of each head, with forbidden choices up to the length of the longest."""
        heads = self._heads(self.logits)
        return forbid(heads, np.arange(max(self.nvec)) < np.array(self.nvec)[:, None]) if self._ragged else heads

    def _heads(self, flat: Float[Array, " A"] | Bool[Array | np.ndarray, " A"]) -> Float[Array, "H N"] | Bool[Array, "H N"]:
        """One row per head, padded with zeros to the length of the longest."""
        flat, longest = jnp.asarray(flat), max(self.nvec)
        if not self._ragged:
            return flat.reshape(len(self.nvec), longest)
        ends = np.cumsum(self.nvec)
        return jnp.stack([jnp.pad(flat[end - n : end], (0, longest - n)) for n, end in zip(self.nvec, ends, strict=True)])
