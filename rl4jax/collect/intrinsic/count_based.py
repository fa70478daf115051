"""A bonus for what was rarely seen, by counting (Strehl and Littman 2008; Bellemare et al. 2016)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, PyTree, UInt32

from rl4jax.collect.rollout import Rollout
from rl4jax.core.errors import is_count, require
from rl4jax.core.number import Number, is_concrete


class CountBased(eqx.Module):
    """`1 / sqrt(N)`, where N is how often what a step led to was seen, that time included, in all environments together.

    Two observations count as one if they are equal after `round(x / resolution)`; whole numbers (symbols, pixels) are compared as they are.

    Counts live in a count-min sketch (Cormode and Muthukrishnan 2005), because a compiled program has no dictionary: `num_hashes` tables
    of `num_cells`, each counting by another hash, and the smallest of the counts is the answer. It is never too small, and too large
    only if an observation shares its cell with others in every table: with the defaults so is one in 30,000 among 5,000 different ones,
    one in 23 among 40,000.
    """

    counts: Int32[Array, "K C"]
    resolution: Float[Array, ""]

    def __init__(self, resolution: Number, num_cells: int = 2**16, num_hashes: int = 4):
        if is_concrete(resolution):
            finite = bool(np.isfinite(resolution) and np.asarray(resolution) > 0)
            require(finite, "CountBased: resolution", resolution, "positive: differences smaller than about this do not count")
        require(is_count(num_cells), "CountBased: num_cells", num_cells, "a positive integer")
        require(is_count(num_hashes), "CountBased: num_hashes", num_hashes, "a positive integer")
        self.counts = jnp.zeros((num_hashes, num_cells), jnp.int32)
        self.resolution = jnp.asarray(resolution, jnp.float32)

    def reward(self, rollout: Rollout) -> tuple[Float[Array, "T B"], "CountBased"]:
        """The bonus of each step; the steps of one time are counted together, then paid."""
        bonus, counts = _count(self.counts, self.resolution, rollout.next_obs, rollout.valid)
        return bonus, eqx.tree_at(lambda explorer: explorer.counts, self, counts)

    def count(self, obs: PyTree) -> Int32[Array, ""]:
        """How often one observation was seen."""
        one = jax.tree.map(lambda x: jnp.asarray(x)[None, None], obs)
        return _look_up(self.counts, _cells(one, self.resolution, *self.counts.shape)[0, 0])


@jax.jit
def _count(counts, resolution, obs, valid: Bool[Array, "T B"]):
    def one_time(counts, now):
        cells, valid = now
        counts = counts.at[jnp.arange(len(counts)), cells].add(valid[:, None])
        return counts, jnp.where(valid, 1 / jnp.sqrt(_look_up(counts, cells)), 0.0)

    cells = _cells(obs, resolution, *counts.shape)
    counts, bonus = jax.lax.scan(one_time, counts, (cells, valid))
    return bonus, counts


def _look_up(counts: Int32[Array, "K C"], cells: UInt32[Array, "*S K"]) -> Int32[Array, "*S"]:
    return counts[jnp.arange(len(counts)), cells].min(-1)


def _cells(obs: PyTree, resolution: Array, num_hashes: int, num_cells: int) -> UInt32[Array, "T B K"]:
    """Where each observation is counted in each table. All tables are read off two hashes (Kirsch and Mitzenmacher 2006)."""
    parts = [_rounded(x, resolution).reshape(*x.shape[:2], -1) for x in jax.tree.leaves(obs)]
    symbols = jnp.concatenate(parts, -1).astype(jnp.uint32)
    places = _mix(jnp.arange(2 * symbols.shape[-1], dtype=jnp.uint32)).reshape(2, -1)  # so that (1, 2) is not (2, 1)
    first, second = (_mix(_mix(symbols ^ place).sum(-1, dtype=jnp.uint32)) for place in places)
    steps = jnp.arange(num_hashes, dtype=jnp.uint32)
    return _mix(first[..., None] + steps * second[..., None]) % num_cells


def _rounded(x: Array, resolution: Array) -> Int32[Array, "..."]:
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x.astype(jnp.int32)
    return jnp.clip(jnp.round(x / resolution), -2e9, 2e9).astype(jnp.int32)  # within int32


def _mix(x: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """Spread each bit over all others: the end of MurmurHash3 (Appleby 2011)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
