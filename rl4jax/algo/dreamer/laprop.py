"""The optimizer of DreamerV3: gradients no larger than weights (Brock et al. 2021), normalised, then averaged (Ziyin et al. 2020)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int32, PyTree

from rl4jax.core.number import Number


def clip_by_weight(clip: Number = 0.3, least: Number = 1e-3) -> optax.GradientTransformation:
    """Adaptive clipping: the gradient of each array has a norm of at most `clip` times that of the array, which counts as at least `least`.

    `optax.adaptive_grad_clip` does this for each unit by itself.
    """

    def update(grads, weights):
        def one(grad, weight):
            most = clip * jnp.maximum(least, jnp.linalg.norm(weight.ravel()))
            return grad * jnp.minimum(1.0, most / jnp.maximum(jnp.linalg.norm(grad.ravel()), 1e-30))

        return jax.tree.map(one, grads, weights)

    return optax.stateless(update)


class LaPropState(NamedTuple):
    num_steps: Int32[Array, ""]
    square: PyTree
    momentum: PyTree


def scale_by_laprop(b1: Number = 0.9, b2: Number = 0.999, eps: Number = 1e-20) -> optax.GradientTransformation:
    """The gradient divided by its root mean square over time, then averaged over time: in Adam it is the other way round."""

    def init(params):
        return LaPropState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))

    def update(updates, state, params=None):
        grads, count = updates, state.num_steps + 1
        begun1, begun2 = (-jnp.expm1(count * jnp.log1p(b - 1)) for b in (b1, b2))  # 1 - b**count, to the last digits
        square = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state.square, grads)
        scaled = jax.tree.map(lambda g, v: g / (jnp.sqrt(v / begun2) + eps), grads, square)
        momentum = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.momentum, scaled)
        return jax.tree.map(lambda m: m / begun1, momentum), LaPropState(count, square, momentum)

    return optax.GradientTransformation(init, update)
