"""Off-policy correction of an actor-critic: V-trace (Espeholt et al. 2018)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rl4jax.core.errors import require
from rl4jax.core.number import Number, is_concrete

from .returns import accumulate, check_shapes

MOST_LOG_RHO = 20.0  # exp of it is 5e8: beyond, products of weights leave float32


class VTrace(NamedTuple):
    """What `vtrace` says: constants, through which no gradient passes."""

    target: Float[Array, "T *B"]  # of the value
    advantage: Float[Array, "T *B"]  # the weight of `log_prob` in the policy's loss, importance weight included


def vtrace(
    log_rho: Float[Array, "T *B"],
    reward: Float[Array, "T *B"],
    value: Float[Array, "T *B"],
    next_value: Float[Array, "T *B"],
    discount: Float[Array, "T *B"],
    trace: Float[Array, "T *B"],
    *,
    clip_rho: Number = 1.0,
    clip_c: Number = 1.0,
    clip_pg_rho: Number = 1.0,
) -> VTrace:
    """Value targets and advantages from what another policy played: `log_rho = log pi(action) - log mu(action)`, where mu played.

    With `rho = exp(log_rho)` and `delta = reward + discount * next_value - value`:

        target    = value + min(rho, clip_rho) * delta + discount * trace * min(rho, clip_c) * (later target - later value)
        advantage = min(rho, clip_pg_rho) * (reward + discount * next target - value)
        next target = trace * later target + (1 - trace) * next_value

    `discount` and `trace` are those of `gae`: an ended step is bootstrapped from its `next_value`, and the last one of the arrays too.
    `log_rho` is clamped to [-20, 20]. A clip of infinity clips nothing. `clip_rho` decides whose values are learned: the policy's own if
    it is infinite, those of a policy nearer to mu if not. `clip_c` only decides how fast.
    """
    check_shapes("vtrace", reward, log_rho=log_rho, value=value, next_value=next_value, discount=discount, trace=trace)
    for name, clip in {"clip_rho": clip_rho, "clip_c": clip_c, "clip_pg_rho": clip_pg_rho}.items():
        if is_concrete(clip):
            require(bool(np.all(np.asarray(clip) > 0)), f"vtrace: {name}", clip, "positive; the paper uses 1")
    rho = jnp.exp(jnp.clip(log_rho, -MOST_LOG_RHO, MOST_LOG_RHO))
    delta = reward + discount * next_value - value
    error = accumulate(jnp.minimum(rho, clip_rho) * delta, discount * trace * jnp.minimum(rho, clip_c), jnp.zeros_like(delta[0]))
    target = value + error
    later = jnp.concatenate([target[1:], next_value[-1:]])
    next_target = trace * later + (1 - trace) * next_value
    advantage = jnp.minimum(rho, clip_pg_rho) * (reward + discount * next_target - value)
    return VTrace(*jax.lax.stop_gradient((target, advantage)))
