"""From any number of entities to one vector, by attention."""

import math

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from rl4jax.core.errors import is_count, require

from .attention import MultiHeadAttention
from .entity_mask import EntityMask, as_entity_mask, check_entities
from .orthogonal import orthogonal_weights


class AttentionPool(eqx.Module):
    """Learned queries attend to the entities; their answers one behind the other, `[num_queries * d_model]`.

    The order of the entities does not matter. A mask `[S]` is bool, true = attend; no entity at all gives zeros.

    >>> pool = AttentionPool(8, num_queries=4, num_heads=2, key=jax.random.key(0))
    >>> pool(jax.numpy.ones((5, 8)), mask=jax.numpy.arange(5) < 3).shape
    (32,)
    """

    queries: Float[Array, "Q D"]
    attention: MultiHeadAttention

    def __init__(self, d_model: int, num_queries: int, num_heads: int = 1, *, key: PRNGKeyArray):
        require(is_count(num_queries), "AttentionPool: num_queries", num_queries, "a positive integer")
        query_key, attention_key = jax.random.split(key)
        self.attention = MultiHeadAttention(d_model, num_heads, key=attention_key)
        # Entries of size one, as entities have behind a norm, so that the queries do not all begin as the mean.
        self.queries = orthogonal_weights(query_key, (num_queries, d_model), math.sqrt(max(num_queries, d_model)), column_axis=-1)

    def __call__(self, x: Float[Array, "S D"], mask: EntityMask = None) -> Float[Array, " P"]:
        check_entities("AttentionPool: x", x, self.queries.shape[1])
        if mask is not None:
            mask = as_entity_mask("AttentionPool: mask", mask, (len(x),))
        return self.attention(self.queries, x, mask).ravel()
