"""What all choosers of one entity have in common."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from rl4jax.core.errors import ShapeError

from .distributions.categorical import FORBIDDEN
from .distributions.distribution import in_single
from .entity_mask import EntityMask, check_entities, check_entity_mask, leave_out, masked_softmax


class AbstractPointer(eqx.Module):
    """A score for each entity, made into probabilities by calling it, or into `logits` for a distribution.

    A mask `[N]` is bool, true = may be chosen; what the others hold, even NaN, changes nothing.
    """

    query_dim: eqx.AbstractVar[int]
    key_dim: eqx.AbstractVar[int]

    @abc.abstractmethod
    def scores(self, query: Float[Array, " Q"], keys: Float[Array, "N K"]) -> Float[Array, " N"]:
        """A score for each entity, the higher the more likely."""

    def __call__(self, query: Float[Array, " Q"], keys: Float[Array, "N K"], mask: EntityMask = None) -> Float[Array, " N"]:
        """Probabilities, zero for forbidden entities: all zero, with zero gradients, if the mask allows nothing."""
        return masked_softmax(self._clean_scores(query, keys, mask), mask)

    def logits(self, query: Float[Array, " Q"], keys: Float[Array, "N K"], mask: EntityMask = None) -> Float[Array, " N"]:
        """The scores, and -1e38 for forbidden entities: `Categorical(pointer.logits(query, keys, mask))`."""
        scores = in_single(self._clean_scores(query, keys, mask))
        return scores if mask is None else jnp.where(mask, scores, FORBIDDEN)

    def _clean_scores(self, query: Float[Array, " Q"], keys: Float[Array, "N K"], mask: EntityMask) -> Float[Array, " N"]:
        name = type(self).__name__
        check_query(f"{name}: query", query, self.query_dim)
        check_entities(f"{name}: keys", keys, self.key_dim)
        if mask is not None:
            check_entity_mask(f"{name}: mask", mask, (len(keys),))
            keys = leave_out(keys, mask)
        return self.scores(query, keys)


def check_query(name: str, x: Any, width: int) -> None:
    """Raise unless x is `[width]`."""
    if jnp.shape(x) != (width,):
        raise ShapeError(f"{name} has shape {jnp.shape(x)}; it must be ({width},). For a batch use jax.vmap.")
