"""Estimators of advantages and returns: functions of arrays, time first, any batch behind."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rl4jax.core.errors import ShapeError, is_count, require


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
    check_shapes("gae", reward, value=value, next_value=next_value, discount=discount, trace=trace)
    delta = reward + discount * next_value - value
    return accumulate(delta, discount * trace, jnp.zeros_like(delta[0]))


def lambda_returns(
    reward: Float[Array, "T *B"], next_value: Float[Array, "T *B"], discount: Float[Array, "T *B"], trace: Float[Array, "T *B"]
) -> Float[Array, "T *B"]:
    """What a critic should have said: `G = reward + discount * ((1 - trace) * next_value + trace * later G)`.

    The last step looks at `next_value` only, whatever its trace. Arguments are those of `gae`, whose advantage plus the value is the
    same number if `next_value` is the value of the step that follows. Gradients pass: `td_lambda` stops them, imagined rollouts need them.
    """
    check_shapes("lambda_returns", reward, next_value=next_value, discount=discount, trace=trace)
    return accumulate(reward + discount * (1 - trace) * next_value, discount * trace, next_value[-1])


def td_lambda(
    reward: Float[Array, "T *B"],
    value: Float[Array, "T *B"],
    next_value: Float[Array, "T *B"],
    discount: Float[Array, "T *B"],
    trace: Float[Array, "T *B"],
) -> Float[Array, "T *B"]:
    """How far the critic is from its lambda-return: `G - value`. G is held constant, so that the loss `0.5 * error**2` moves the value."""
    check_shapes("td_lambda", reward, value=value, next_value=next_value, discount=discount, trace=trace)
    return jax.lax.stop_gradient(lambda_returns(reward, next_value, discount, trace)) - value


def n_step(
    reward: Float[Array, "T *B"],
    next_value: Float[Array, "T *B"],
    discount: Float[Array, "T *B"],
    trace: Float[Array, "T *B"],
    n: int,
) -> Float[Array, "T *B"]:
    """Rewards of n steps, then the critic: `r_0 + d_0 * (r_1 + d_1 * (... r_{n-1} + d_{n-1} * next_value_{n-1}))`.

    Where the trace is 0 the sum ends early, and so it does with the last step of the arrays: the `next_value` of that step is the rest.
    A trace between 0 and 1 mixes both, as in `lambda_returns`, which is what comes out once n is as large as T.
    """
    check_shapes("n_step", reward, next_value=next_value, discount=discount, trace=trace)
    require(is_count(n), "n_step: n", n, "a positive integer", "It decides how often a loop runs, so it cannot be traced.")

    def one_step_more(later, _):
        later = jnp.concatenate([later[1:], next_value[-1:]])
        return reward + discount * ((1 - trace) * next_value + trace * later), None

    return jax.lax.scan(one_step_more, reward + discount * next_value, length=min(n, len(reward)) - 1)[0]


def accumulate(add: Float[Array, "T *B"], decay: Float[Array, "T *B"], last: Float[Array, "*B"]) -> Float[Array, "T *B"]:
    """`total = add + decay * later total`, from the end backwards, where `last` is what comes after the end."""

    def back(later, now):
        add, decay = now
        total = add + decay * later
        return total, total

    return jax.lax.scan(back, last.astype(add.dtype), (add, decay), reverse=True, unroll=8)[1]


def check_shapes(function: str, reward: Float[Array, "T *B"], **others: Float[Array, "..."]) -> None:
    """Raise unless all arrays have the shape of the rewards and there is a step at all; the message names the function."""
    if not jnp.shape(reward) or not len(reward):
        raise ShapeError(f"{function}: reward has shape {jnp.shape(reward)}; its first axis is time, of at least one step.")
    for name, x in others.items():
        if jnp.shape(x) != jnp.shape(reward):
            fix = "jnp.full makes one of a number." if jnp.ndim(x) == 0 else ""
            if jnp.shape(x)[:1] == (len(reward) + 1,):
                fix = "Of T + 1 values give value[:-1] and next_value = value[1:], where no episode was truncated (see Rollout.next_value)."
            raise ShapeError(f"{function}: {name} has shape {jnp.shape(x)}; it must be that of reward, {jnp.shape(reward)}. {fix}".rstrip())
