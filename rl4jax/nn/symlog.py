"""Numbers of any size made small, and back (Hafner et al. 2023, DreamerV3)."""

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float


def symlog(x: Float[ArrayLike, "*S"]) -> Float[Array, "*S"]:
    """Compress magnitude, keep sign: `sign(x) * log(1 + |x|)`. Inverse: `symexp`. The slope at 0 is 1, also for autodiff.

    >>> round(float(symlog(-1000.0)), 4)
    -6.9088
    """
    x = jnp.asarray(x)
    sign = _sign(x)
    return sign * jnp.log1p(sign * x)


def symexp(x: Float[ArrayLike, "*S"]) -> Float[Array, "*S"]:
    """Undo `symlog`: `sign(x) * (exp(|x|) - 1)`. In float32 infinite beyond 88.

    >>> round(float(symexp(symlog(-7.0))), 3)
    -7.0
    """
    x = jnp.asarray(x)
    sign = _sign(x)
    return sign * jnp.expm1(sign * x)


def _sign(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """1 or -1: with a sign of 0, or with `jnp.abs`, the gradient at 0 would be 0 instead of 1."""
    return jnp.where(x < 0, -1.0, 1.0).astype(x.dtype)
