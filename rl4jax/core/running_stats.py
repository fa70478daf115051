"""Mean and variance of a stream, kept exactly as it grows (Welford 1962; merging after Chan, Golub and LeVeque 1979)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, PyTree

from .errors import ShapeError

CLIP = 10.0  # standard deviations: what is further away is as good as there


class RunningStats(eqx.Module):
    """Count, mean and variance of everything seen, per element of an observation (any pytree) or of a scalar.

    It holds variances, not sums of squares: those outgrow float32 in a long run. Integer leaves (images, symbols) have no
    statistics and pass through `normalize` unchanged.

    >>> stats = RunningStats.like(jnp.zeros(()))
    >>> stats = stats.update(jnp.array([1.0, 3.0]))
    >>> float(stats.mean), float(stats.var)
    (2.0, 1.0)
    """

    count: Float[Array, ""]
    mean: PyTree[Float[Array, "..."] | None]
    var: PyTree[Float[Array, "..."] | None]  # of the population, as NumPy's var
    frozen: Bool[Array, ""]

    @classmethod
    def like(cls, example: PyTree) -> "RunningStats":
        """No data yet, for values shaped like `example`: mean 0 and variance 1."""
        zero = jax.tree.map(lambda x: jnp.zeros(jnp.shape(x)) if _has_stats(x) else None, example)
        return cls(jnp.zeros(()), zero, jax.tree.map(jnp.ones_like, zero), jnp.zeros((), bool))

    def update(self, batch: PyTree, where: Bool[Array | np.ndarray, "..."] | None = None) -> "RunningStats":
        """Take in a batch (any number of leading axes); `where`, of those leading axes, leaves out what is not real."""
        # In float32 whatever comes: the sums of a batch outgrow half precision.
        batch = jax.tree.map(lambda x: x.astype(jnp.float32) if _has_stats(x) else None, batch)
        if not jax.tree.leaves(self.mean):
            return self
        lead = _leading_axes(batch, self.mean, where)
        weight = jnp.ones(lead) if where is None else jnp.asarray(where, jnp.float32)
        count = weight.sum()

        def average(x, like):
            real = weight.reshape(lead + (1,) * like.ndim) > 0
            return jnp.where(real, x, 0.0).sum(tuple(range(len(lead)))) / jnp.maximum(count, 1.0)

        mean = jax.tree.map(average, batch, self.mean)
        var = jax.tree.map(lambda x, m: average((x - m) ** 2, m), batch, mean)
        return self.merge(RunningStats(count, mean, var, self.frozen))

    def merge(self, other: "RunningStats") -> "RunningStats":
        """The statistics of both streams together, in any order: how machines and batches are joined. Frozen ones stay."""
        count = self.count + other.count
        share = jnp.where(self.frozen, 0.0, other.count / jnp.maximum(count, 1.0))

        def join(var, other_var, mean, other_mean):
            var = jnp.where((self.count > 0) | self.frozen, var, other_var)  # the 1 of an empty stream is no data
            return var + share * (other_var - var) + share * (1 - share) * (other_mean - mean) ** 2

        var = jax.tree.map(join, self.var, other.var, self.mean, other.mean)
        mean = jax.tree.map(lambda a, b: a + share * (b - a), self.mean, other.mean)
        empty = count == 0
        var = jax.tree.map(lambda new, old: jnp.where(empty, old, new), var, self.var)
        return RunningStats(jnp.where(self.frozen, self.count, count), mean, var, self.frozen)

    def freeze(self) -> "RunningStats":
        """The same numbers, which `update` and `merge` no longer change."""
        return RunningStats(self.count, self.mean, self.var, jnp.ones((), bool))

    def normalize(self, x: PyTree, clip: float = CLIP) -> PyTree:
        """`(x - mean) / sqrt(var + 1e-8)`, clipped to `[-clip, clip]`; x may have leading axes."""
        return jax.tree.map(
            lambda value, mean, var: value if mean is None else jnp.clip((value - mean) / jnp.sqrt(var + 1e-8), -clip, clip),
            x, self.mean, self.var,
        )  # fmt: skip


def _has_stats(x: ArrayLike) -> bool:
    return jnp.issubdtype(jnp.result_type(x), jnp.floating)


def _leading_axes(batch: PyTree, mean: PyTree, where: Array | np.ndarray | None) -> tuple[int, ...]:
    """The axes in front of one value, the same for all leaves and for `where`."""
    given, one = [x.shape for x in jax.tree.leaves(batch)], [m.shape for m in jax.tree.leaves(mean)]
    lead = given[0][: len(given[0]) - len(one[0])] if given else ()
    if given != [lead + shape for shape in one]:
        raise ShapeError(f"RunningStats.update: batch has shapes {given}; they must be the same leading axes followed by {one}.")
    if where is not None and where.shape != lead:
        raise ShapeError(f"RunningStats.update: where has shape {where.shape}; it must be {lead}, the leading axes of the batch.")
    return lead
