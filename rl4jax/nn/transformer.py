"""Transformer encoder with the norms first (Xiong et al. 2020), for sets of entities: no positions, no dropout."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from rl4jax.core.errors import is_count, require

from .attention import MultiHeadAttention, attending
from .entity_mask import EntityMask, as_entity_mask, check_entities, leave_out
from .row_linear import RowLinear, orthogonal_rows


class FeedForward(eqx.Module):
    """`W2 relu(W1 x + b1) + b2`, for each row."""

    inner: RowLinear
    outer: RowLinear

    def __init__(self, d_model: int, d_ff: int, *, key: PRNGKeyArray):
        inner_key, outer_key = jax.random.split(key)
        self.inner = orthogonal_rows(d_model, d_ff, key=inner_key)
        self.outer = orthogonal_rows(d_ff, d_model, 1.0, key=outer_key)

    def __call__(self, x: Float[Array, "S D"]) -> Float[Array, "S D"]:
        return self.outer(jax.nn.relu(self.inner(x)))


class TransformerBlock(eqx.Module):
    """`x += attention(norm(x))`, then `x += feed_forward(norm(x))`.

    A mask is bool, true = attend: `[S]` for slots that are there, `[S, S]` for pairs of query and key. Slots that are not there, or that
    neither attend nor are attended to, may hold anything, even NaN, and give zeros.
    """

    attention_norm: eqx.nn.LayerNorm
    attention: MultiHeadAttention
    feed_forward_norm: eqx.nn.LayerNorm
    feed_forward: FeedForward

    def __init__(self, d_model: int, num_heads: int, d_ff: int | None = None, *, key: PRNGKeyArray):
        require(d_ff is None or is_count(d_ff), "TransformerBlock: d_ff", d_ff, "a positive integer, or None for 4 * d_model")
        attention_key, feed_forward_key = jax.random.split(key)
        self.attention = MultiHeadAttention(d_model, num_heads, key=attention_key)
        self.feed_forward = FeedForward(d_model, d_ff or 4 * d_model, key=feed_forward_key)
        self.attention_norm = eqx.nn.LayerNorm(d_model)
        self.feed_forward_norm = eqx.nn.LayerNorm(d_model)

    def __call__(self, x: Float[Array, "S D"], mask: EntityMask = None) -> Float[Array, "S D"]:
        check_entities("TransformerBlock: x", x, self.attention.out.bias.shape[0])
        present = None
        if mask is not None:
            mask = as_entity_mask("TransformerBlock: mask", mask, (len(x),), (len(x), len(x)))
            who = attending(mask, num_queries=len(x), same=True)
            present = who.queries | who.keys
            x = leave_out(x, present)
        x = x + self.attention(jax.vmap(self.attention_norm)(x), mask=mask)
        x = x + self.feed_forward(jax.vmap(self.feed_forward_norm)(x))
        return x if present is None else leave_out(x, present)


class TransformerEncoder(eqx.Module):
    """`num_layers` blocks one after the other. Entities in another order give the same rows in that order.

    >>> encoder = TransformerEncoder(8, num_heads=2, num_layers=2, key=jax.random.key(0))
    >>> encoder(jax.numpy.ones((5, 8)), mask=jax.numpy.arange(5) < 3).shape
    (5, 8)
    """

    blocks: tuple[TransformerBlock, ...]

    def __init__(self, d_model: int, num_heads: int, num_layers: int, d_ff: int | None = None, *, key: PRNGKeyArray):
        require(is_count(num_layers), "TransformerEncoder: num_layers", num_layers, "a positive integer")
        self.blocks = tuple(TransformerBlock(d_model, num_heads, d_ff, key=k) for k in jax.random.split(key, num_layers))

    def __call__(self, x: Float[Array, "S D"], mask: EntityMask = None) -> Float[Array, "S D"]:
        for block in self.blocks:
            x = block(x, mask)
        return x
