"""Idioms whose values and gradients are finite where the plain ones are not: `from rl4jax.gradients import safe`.

`jnp.where(x > 0, jnp.sqrt(x), 0.0)` has the value 0 at 0 and the gradient NaN: both branches are differentiated, and the one that was not
taken gives `0 * inf`. The input must be replaced as well, which is what these do. A NaN stays one: it should be seen.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rl4jax.core.number import Number

Axis = int | tuple[int, ...] | None


def where(
    condition: Bool[Array, "*S"],
    f: Callable[[Float[Array, "*S"]], Float[Array, "*S"]],
    x: Float[Array, "*S"],
    other: Float[Array, "*S"] | Number,
    stand_in: Number = 1.0,
) -> Float[Array, "*S"]:
    """`f(x)` where the condition holds and `other` elsewhere; where it does not, f sees the stand-in, and x gets no gradient.

    >>> x = jnp.array([4.0, 0.0])
    >>> jax.grad(lambda x: where(x > 0, jnp.sqrt, x, 0.0).sum())(x).tolist()
    [0.25, 0.0]
    """
    return jnp.where(condition, f(jnp.where(condition, x, stand_in)), other)


def log(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """`log(x)`, but for 0, negative and subnormal x the logarithm of the smallest normal number, -87.3 in float32, with gradient 0."""
    least = jnp.finfo(x.dtype).tiny
    return where(~(x < least), jnp.log, x, jnp.log(least))


def sqrt(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """`sqrt(x)`, but for 0 and negative x the value 0 with gradient 0."""
    return where(~(x <= 0), jnp.sqrt, x, 0.0)


def norm(x: Float[Array, "..."], axis: Axis = None, *, keepdims: bool = False) -> Float[Array, "..."]:
    """Euclidean length, with gradient 0 for a vector of zeros. Squares neither overflow nor vanish: x is divided by its largest element."""
    largest = jax.lax.stop_gradient(jnp.abs(x).max(axis, keepdims=True, initial=0.0))
    scale = jnp.where((largest > 0) & (largest < jnp.inf), largest, 1.0)
    length = sqrt(jnp.square(x / scale).sum(axis, keepdims=True)) * scale
    return length if keepdims else length.squeeze(axis)


def max(x: Float[Array, "..."], axis: Axis = None, *, where: Bool[Array, "..."], empty: Number = 0.0) -> Float[Array, "..."]:
    """The largest of the elements where the mask is true; `empty` and gradient 0 where it nowhere is. What is masked may be NaN."""
    largest = jnp.where(where, x, -jnp.inf).max(axis, initial=-jnp.inf)
    return jnp.where(where.any(axis), largest, empty)
