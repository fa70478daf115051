"""Mean and variance of a stream, kept exactly as it grows (Welford 1962; merging after Chan, Golub and LeVeque 1979)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from .errors import ShapeError


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
        zero = jax.tree.map(lambda x: jnp.zeros(x.shape) if _has_stats(x) else None, example)
        return cls(jnp.zeros(()), zero, jax.tree.map(jnp.ones_like, zero), jnp.zeros((), bool))

    def update(self, batch: PyTree, where: Bool[Array, "..."] | None = None) -> "RunningStats":
        """Take in a batch (any number of leading axes); `where`, of those leading axes, leaves out what is not real."""
        leaves, seen = jax.tree.leaves(eqx.filter(batch, _has_stats)), jax.tree.leaves(self.mean)
        if [x.shape[x.ndim - m.ndim :] for x, m in zip(leaves, seen, strict=False)] != [m.shape for m in seen]:
            raise ShapeError(
                f"RunningStats.update: batch has shapes {[x.shape for x in leaves]}; they must be any leading axes "
                f"followed by {[m.shape for m in seen]}."
            )
        batch = eqx.filter(batch, _has_stats)
        lead = leaves[0].shape[: leaves[0].ndim - seen[0].ndim]
        weight = jnp.ones(lead) if where is None else where.astype(jnp.float32)
        count = weight.sum()

        def average(x, like):
            axes = tuple(range(len(lead)))
            spread = weight.reshape(lead + (1,) * like.ndim)
            return (jnp.where(spread > 0, x, 0.0)).sum(axes) / jnp.maximum(count, 1.0)

        mean = jax.tree.map(average, batch, self.mean)
        var = jax.tree.map(lambda x, m: average((x - m) ** 2, m), batch, mean)
        return self.merge(RunningStats(count, mean, var, self.frozen))

    def merge(self, other: "RunningStats") -> "RunningStats":
        """The statistics of both streams together, in any order: how machines and batches are joined. Frozen ones stay."""
        count = self.count + other.count
        share = jnp.where(self.frozen, 0.0, other.count / jnp.maximum(count, 1.0))
        mean = jax.tree.map(lambda a, b: a + share * (b - a), self.mean, other.mean)
        var = jax.tree.map(
            lambda v, w, a, b: v + share * (w - v) + share * (1 - share) * (b - a) ** 2,
            self.var, other.var, self.mean, other.mean,
        )  # fmt: skip
        return RunningStats(jnp.where(self.frozen, self.count, count), mean, var, self.frozen)

    def freeze(self) -> "RunningStats":
        """The same numbers, which `update` and `merge` no longer change."""
        return RunningStats(self.count, self.mean, self.var, jnp.ones((), bool))

    def normalize(self, x: PyTree, clip: float = 10.0) -> PyTree:
        """`(x - mean) / sqrt(var + 1e-8)`, clipped to `[-clip, clip]`; x may have leading axes."""
        return jax.tree.map(
            lambda value, mean, var: value if mean is None else jnp.clip((value - mean) / jnp.sqrt(var + 1e-8), -clip, clip),
            x, self.mean, self.var,
        )  # fmt: skip


def _has_stats(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)
