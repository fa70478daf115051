"""What all choosers of one entity have in common."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rl4jax.core.number import in_single

from .distributions.categorical import FORBIDDEN
from .entity_mask import EntityMask, as_entity_mask, check_entities, leave_out, masked_softmax
from .input_check import check_input


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
        return masked_softmax(*self._clean_scores(query, keys, mask))

    def logits(self, query: Float[Array, " Q"], keys: Float[Array, "N K"], mask: EntityMask = None) -> Float[Array, " N"]:
        """The scores, and -1e38 for forbidden entities: `Categorical(pointer.logits(query, keys, mask))`."""
        scores, allowed = self._clean_scores(query, keys, mask)
        return in_single(scores) if allowed is None else jnp.where(allowed, in_single(scores), FORBIDDEN)

    def _clean_scores(
        self, query: Float[Array, "..."], keys: Float[Array, "..."], mask: EntityMask
    ) -> tuple[Float[Array, " N"], Bool[Array, " N"] | None]:
        """The scores, whatever forbidden entities hold, and the mask as bools."""
        name = type(self).__name__
        check_input(f"{name}: query", query, self.query_dim)
        check_entities(f"{name}: keys", keys, self.key_dim)
        if mask is not None:
            mask = as_entity_mask(f"{name}: mask", mask, (len(keys),))
            keys = leave_out(keys, mask)
        return self.scores(query, keys), mask
