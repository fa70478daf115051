"""Multi-head attention (Vaswani et al. 2017), within a set of entities or from one set to another."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from rl4jax.core.errors import choose_divisor, is_count, require

from .entity_mask import EntityMask, as_entity_mask, check_entities, leave_out, masked_softmax
from .row_linear import RowLinear, orthogonal_rows


class MultiHeadAttention(eqx.Module):
    """`softmax(q k^T / sqrt(d)) v` in `num_heads` heads of `d = d_model / num_heads`, with projections before and after.

    `attention(x)` is self-attention; `attention(query, key_value)` reads from another set. A mask is bool, true = attend: `[Sk]` for keys,
    or `[Sq, Sk]` for pairs. A query with nothing to attend to gives zeros, with zero gradients; what nobody attends to may hold anything,
    even NaN. In self-attention a mask `[S]` says which slots are there at all: the others are no queries either, and give zeros.

    >>> attention = MultiHeadAttention(8, 2, key=jax.random.key(0))
    >>> attention(jnp.ones((5, 8)), mask=jnp.arange(5) < 3).shape
    (5, 8)
    """

    qkv: RowLinear  # queries, keys and values in one product, [3 d_model, d_model], as PyTorch's in_proj
    out: RowLinear
    num_heads: int = eqx.field(static=True)

    def __init__(self, d_model: int, num_heads: int, *, key: PRNGKeyArray):
        require(is_count(d_model), "MultiHeadAttention: d_model", d_model, "a positive integer")
        require(is_count(num_heads), "MultiHeadAttention: num_heads", num_heads, "a positive integer")
        fix = choose_divisor(d_model)
        require(d_model % num_heads == 0, "MultiHeadAttention: num_heads", num_heads, f"a divisor of d_model = {d_model}", fix)
        *qkv_keys, out_key = jax.random.split(key, 4)
        self.qkv = jax.tree.map(lambda *x: jnp.concatenate(x), *[orthogonal_rows(d_model, d_model, 1.0, key=k) for k in qkv_keys])
        self.out = orthogonal_rows(d_model, d_model, 1.0, key=out_key)
        self.num_heads = num_heads

    def __call__(
        self, query: Float[Array, "Sq D"], key_value: Float[Array, "Sk D"] | None = None, mask: EntityMask = None
    ) -> Float[Array, "Sq D"]:
        d_model = self.out.bias.shape[0]
        source = query if key_value is None else key_value
        check_entities("MultiHeadAttention: query", query, d_model)
        check_entities("MultiHeadAttention: key_value", source, d_model)
        if mask is None and len(source) == 0:
            mask = jnp.ones(0, bool)  # nobody there: nothing to attend to
        who = None
        if mask is not None:
            mask = as_entity_mask("MultiHeadAttention: mask", mask, (len(source),), (len(query), len(source)))
            who = attending(mask, num_queries=len(query), same=key_value is None)
        if key_value is None:
            x = query if who is None else leave_out(query, who.queries | who.keys)
            q, k, v = jnp.split(self.qkv(x), 3, axis=1)
        else:
            if who is not None:
                query, key_value = leave_out(query, who.queries), leave_out(key_value, who.keys)
            q = RowLinear(self.qkv.weight[:d_model], self.qkv.bias[:d_model])(query)
            k, v = jnp.split(RowLinear(self.qkv.weight[d_model:], self.qkv.bias[d_model:])(key_value), 2, axis=1)
        q, k, v = self._heads(q), self._heads(k), self._heads(v)
        weights = masked_softmax(q @ k.mT / math.sqrt(q.shape[-1]), None if who is None else who.pairs)
        y = self.out((weights @ v).swapaxes(0, 1).reshape(query.shape))
        return y if who is None else leave_out(y, who.queries)

    def _heads(self, x: Float[Array, "S D"]) -> Float[Array, "H S d"]:
        """Heads first, before the products: XLA on CPU is slow in products whose batch axis is in the middle."""
        return x.reshape(len(x), self.num_heads, x.shape[1] // self.num_heads).swapaxes(0, 1)


class Attending(NamedTuple):
    """Who attends to whom."""

    pairs: Bool[Array, "#Sq Sk"]
    queries: Bool[Array, " Sq"]  # those that attend to anything
    keys: Bool[Array, " Sk"]  # those that anything attends to


def attending(mask: Bool[Array | np.ndarray, "..."], num_queries: int, same: bool) -> Attending:
    """What a mask of keys `[Sk]` or of pairs `[Sq, Sk]` says; with `same`, a mask of keys is one of queries too."""
    mask = jnp.asarray(mask)
    if mask.ndim == 2:
        return Attending(mask, mask.any(1), mask.any(0))
    return Attending(mask[None], mask if same else jnp.broadcast_to(mask.any(), num_queries), mask)
