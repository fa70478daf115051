"""Pointer network (Vinyals et al. 2015): additive attention that chooses one entity."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .linear import Linear
from .orthogonal import POLICY_GAIN, orthogonal_linear
from .pointer import AbstractPointer


class PointerNet(AbstractPointer):
    """How much a query points to each entity: softmax of `v . tanh(Wq q + b + Wk k)`.

    It begins almost uniform, as policies do. For several entities one after another: `PointerSequence`.

    >>> pointer = PointerNet(6, 4, 5, key=jax.random.key(0))
    >>> print(pointer(jnp.ones(6), jnp.ones((3, 4)), jnp.array([True, False, True])))
    [0.5 0.  0.5]
    """

    query: Linear
    key_weight: Float[Array, "H K"]
    score: Float[Array, " H"]  # v
    query_dim: int = eqx.field(static=True)
    key_dim: int = eqx.field(static=True)

    def __init__(self, query_dim: int, key_dim: int, d_hidden: int, *, key: PRNGKeyArray):
        query_key, keys_key, score_key = jax.random.split(key, 3)
        self.query = orthogonal_linear(query_dim, d_hidden, 1.0, key=query_key)
        self.key_weight = orthogonal_linear(key_dim, d_hidden, 1.0, key=keys_key).weight.T
        self.score = orthogonal_linear(d_hidden, 1, POLICY_GAIN, key=score_key).weight[:, 0]
        self.query_dim, self.key_dim = query_dim, key_dim

    def scores(self, query: Float[Array, " Q"], keys: Float[Array, "N K"]) -> Float[Array, " N"]:
        """`v . tanh(Wq q + b + Wk k)`."""
        return jnp.tanh(self.query(query) + keys @ self.key_weight.T) @ self.score
