"""Attention that chooses one entity as a target."""

import math

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from .linear import Linear
from .orthogonal import POLICY_GAIN, orthogonal_linear
from .pointer import AbstractPointer


class TargetAttention(AbstractPointer):
    """How much a query attends to each entity: softmax of `(Wq q + b) . (Wk k) / sqrt(d)`, with `d = min(query_dim, key_dim)`.

    It begins almost uniform, as policies do.

    >>> target = TargetAttention(6, 4, key=jax.random.key(0))
    >>> print(target(jax.numpy.ones(6), jax.numpy.ones((3, 4)), jax.numpy.array([True, False, True])))
    [0.5 0.  0.5]
    """

    query: Linear
    key_weight: Float[Array, "d K"]  # no bias: it would add the same to all scores
    query_dim: int = eqx.field(static=True)
    key_dim: int = eqx.field(static=True)

    def __init__(self, query_dim: int, key_dim: int, *, key: PRNGKeyArray):
        query_key, keys_key = jax.random.split(key)
        d = min(query_dim, key_dim)
        self.query = orthogonal_linear(query_dim, d, POLICY_GAIN, key=query_key)
        self.key_weight = orthogonal_linear(key_dim, d, 1.0, key=keys_key).weight.T
        self.query_dim, self.key_dim = query_dim, key_dim

    def scores(self, query: Float[Array, " Q"], keys: Float[Array, "N K"]) -> Float[Array, " N"]:
        """`(Wq q + b) . (Wk k) / sqrt(d)`."""
        return keys @ self.key_weight.T @ self.query(query) / math.sqrt(self.query.bias.size)
