"""Upgoing policy update (Vinyals et al. 2019): follow what was played as long as it goes better than expected."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rl4jax.core.errors import require

from .returns import accumulate, check_shapes, lambda_returns


def upgo(
    reward: Float[Array, "T *B"],
    value: Float[Array, "T *B"],
    next_value: Float[Array, "T *B"],
    discount: Float[Array, "T *B"],
    trace: Float[Array, "T *B"],
    *,
    mode: Literal["alphastar", "rl4burn"] = "alphastar",
) -> Float[Array, "T *B"]:
    """The upgoing return minus the value; a constant, through which no gradient passes.

    A step goes up if `reward + discount * next_value >= value`. Then

        "alphastar":  G = reward + discount * (later G if the next step goes up, else next_value)
        "rl4burn":    G = reward + discount * later G if this step goes up, else value

    `discount` is that of `gae`. `trace` is 1 while the episode goes on and 0 where it ended: there, and at the last step of the arrays,
    `next_value` stands for the later G. With "rl4burn" no advantage is negative if one critic gave all values: nothing is discouraged.
    """
    check_shapes("upgo", reward, value=value, next_value=next_value, discount=discount, trace=trace)
    require(mode in ("alphastar", "rl4burn"), "upgo: mode", mode, "'alphastar' or 'rl4burn'")
    goes_up = reward + discount * next_value >= value
    if mode == "alphastar":  # a lambda-return whose lambda is 1 where the next step goes up; that of the last step does not matter
        next_goes_up = jnp.concatenate([goes_up[1:], goes_up[-1:]])
        target = lambda_returns(reward, next_value, discount, jnp.where(next_goes_up, trace, 0.0))
    else:
        add = jnp.where(goes_up, reward + discount * (1 - trace) * next_value, value)
        target = accumulate(add, jnp.where(goes_up, discount * trace, 0.0), next_value[-1])
    return jax.lax.stop_gradient(target - value)
