"""Estimators of advantages and returns: functions of arrays, time first, any batch behind."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


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
    delta = reward + discount * next_value - value

    def back(later, now):
        delta, decay = now
        advantage = delta + decay * later
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(delta[0]), (delta, discount * trace), reverse=True, unroll=8)[1]
