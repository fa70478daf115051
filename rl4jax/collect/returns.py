"""Estimators of advantages and returns: functions of arrays, time first, any batch behind."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rl4jax.core.errors import ShapeError


def gae(
    reward: Float[Array, "T *B"],
    value: Float[Array, "T *B"],
    next_value: Float[Array, "T *B"],
    discount: Float[Array, "T *B"],
    trace: Float[Array, "T *B"],
) -> Float[Array, "T *B"]:
    """Generalised advantage estimation (Schulman et al. 2016).

    `delta = reward + discount * next_value - value` and `advantage = delta + discount * trace * later advantage`.

    `discount` is gamma, and 0 where the episode terminated: nothing follows. `trace` is lambda, and 0 where it ended for either reason:
    what follows is another episode. `next_value` is the value of what the step led to, so that a truncated episode is bootstrapped.
    """
    for name, x in {"value": value, "next_value": next_value, "discount": discount, "trace": trace}.items():
        if jnp.shape(x) != jnp.shape(reward):
            raise ShapeError(
                f"gae: {name} has shape {jnp.shape(x)}; it must be that of reward, {jnp.shape(reward)}. jnp.full makes one of a number."
            )
    delta = reward + discount * next_value - value

    def back(later, now):
        delta, decay = now
        advantage = delta + decay * later
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(delta[0]), (delta, discount * trace), reverse=True, unroll=8)[1]
