"""A real number as a distribution over fixed bins (Hafner et al. 2023, DreamerV3): regression by classification."""

import math
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rl4jax.core.errors import ShapeError, require
from rl4jax.core.number import in_single
from rl4jax.nn.symlog import symexp, symlog

from .categorical import log_softmax
from .distribution import check_vector

Space = Literal["real", "symlog"]


class TwoHot(eqx.Module):
    """What a network expects a number to be: probabilities `softmax(logits)` of bins `symexp(linspace(low, high))`.

    A target is the two bins beside it, each with a weight by its nearness, and the loss the cross-entropy with that. The size of a
    gradient then does not depend on the size of the number. With `space="real"` nearness and mean are those of the numbers themselves, as
    in the authors' later code. With `"symlog"` they are those of symlogs, `symexp(sum_i p_i symlog(bin_i))`, as in their first version:
    lower where the distribution is wide. With `low = -high` equal logits expect exactly 0.

    >>> print(TwoHot(jnp.zeros(255)).mean())
    0.0
    """

    logits: Float[Array, " N"] = eqx.field(converter=in_single)
    low: float = eqx.field(default=-20.0, static=True)  # of the bins, as symlogs
    high: float = eqx.field(default=20.0, static=True)
    space: Space = eqx.field(default="real", static=True)

    def __check_init__(self):
        check_vector("TwoHot.logits", self.logits)
        if self.logits.shape[0] < 2:
            raise ShapeError(f"TwoHot.logits has shape {self.logits.shape}; it must have at least two, one for each bin.")
        ordered = math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high
        require(ordered, "TwoHot: (low, high)", (self.low, self.high), "two numbers, the lower one first")
        largest = max(abs(self.low), abs(self.high))
        require(largest < 88, "TwoHot: (low, high)", (self.low, self.high), "symlogs within (-88, 88), which is all of float32")
        require(self.space in ("real", "symlog"), "TwoHot.space", self.space, "'real' or 'symlog'")

    @property
    def bins(self) -> Float[np.ndarray, " N"]:
        """The numbers that the bins stand for, ascending."""
        grid = self._grid()
        return (np.sign(grid) * np.expm1(np.abs(grid))).astype(np.float32)

    def mean(self) -> Float[Array, ""]:
        """The number that is expected."""
        probs, scale = jnp.exp(log_softmax(self.logits)), self._scale()
        if self.low == -self.high:
            # Mirror images share a product, and equal chances leave exactly nothing. The outer bins are so large that products of their own
            # would leave errors of about 1, in whatever order they are added.
            half = len(scale) // 2
            mean = ((probs[len(scale) - half :] - probs[half - 1 :: -1]) * scale[len(scale) - half :]).sum()
        else:
            mean = (probs * scale).sum()
        return mean if self.space == "real" else symexp(mean)

    def mode(self) -> Float[Array, ""]:
        """The most likely bin, the first of equals."""
        return jnp.asarray(self.bins)[jnp.argmax(self.logits)]

    def encode(self, target: Float[Array, ""]) -> Float[Array, " N"]:
        """Two hot: the weights of the bins beside the target, linear between them; beyond the last bin all is its own."""
        if jnp.shape(target) != ():
            raise ShapeError(f"TwoHot.encode: target has shape {jnp.shape(target)}; it must be one number. For a batch use jax.vmap.")
        scale, x = jnp.asarray(self._scale()), target if self.space == "real" else symlog(target)
        below = jnp.clip((scale <= x).sum() - 1, 0, len(scale) - 2)
        share = jnp.clip((x - scale[below]) / (scale[below + 1] - scale[below]), 0.0, 1.0)
        number = jnp.arange(len(scale))
        return jnp.where(number == below, 1 - share, 0.0) + jnp.where(number == below + 1, share, 0.0)

    def log_prob(self, target: Float[Array, ""]) -> Float[Array, ""]:
        """`sum_i encode(target)_i log p_i`; of a bin itself it is the logarithm of its probability."""
        return (self.encode(target) * log_softmax(self.logits)).sum()

    def loss(self, target: Float[Array, ""]) -> Float[Array, ""]:
        """The cross-entropy `-log_prob(target)`. No gradient goes into the target."""
        return -self.log_prob(jax.lax.stop_gradient(target))

    def _grid(self) -> Float[np.ndarray, " N"]:
        """The symlogs of the bins; with `low = -high` they mirror each other to the last bit."""
        grid = np.linspace(self.low, self.high, self.logits.shape[0])
        return (grid - grid[::-1]) / 2 if self.low == -self.high else grid

    def _scale(self) -> Float[np.ndarray, " N"]:
        """The bins in the space in which nearness is measured."""
        return self.bins if self.space == "real" else self._grid().astype(np.float32)
