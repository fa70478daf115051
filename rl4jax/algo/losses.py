"""Loss functions for algorithms of your own. Each is a mean over a batch; targets and advantages are held constant inside."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from rl4jax.core.errors import ShapeError, require
from rl4jax.core.number import Number, is_concrete
from rl4jax.nn.distributions import Categorical


def value_loss(value: Float[Array, "*N"], target: Float[Array, "*N"], delta: Number = 1.0) -> Float[Array, ""]:
    """Huber loss: with `e = |value - target|`, the mean of `e**2 / 2` up to delta and of `delta * (e - delta / 2)` beyond.

    No error pulls harder than delta, so that a few targets far off do not decide the update.
    """
    _same_shape("value_loss", value=value, target=target)
    if is_concrete(delta):
        require(bool(np.all(np.asarray(delta) > 0)), "value_loss: delta", delta, "positive")
    return optax.losses.huber_loss(value, jax.lax.stop_gradient(target), delta=delta).mean()


def policy_loss_discrete(
    logits: Float[Array, "N A"], action: Int[Array, " N"], mask: Bool[Array, "N A"] | None, advantage: Float[Array, " N"]
) -> Float[Array, ""]:
    """REINFORCE (Williams 1992): `-mean(advantage * log_prob(action))`, over the actions that the mask allows (true = allowed).

    Its gradient is that of the policy that acted, so it is right for one step on fresh data only. PPO corrects for more.
    """
    _same_shape("policy_loss_discrete", action=action, advantage=advantage)
    if logits.shape[:-1] != action.shape or (mask is not None and mask.shape != logits.shape):
        shapes = f"logits {logits.shape}, action {action.shape}" + ("" if mask is None else f", mask {mask.shape}")
        raise ShapeError(f"policy_loss_discrete: {shapes}; they must be [N, A], [N] and [N, A].")
    log_prob = jax.vmap(lambda logits, mask, action: Categorical(logits).masked(mask).log_prob(action))(logits, mask, action)
    return -(jax.lax.stop_gradient(advantage) * log_prob).mean()


def policy_loss_continuous(action: Float[Array, "N D"], target: Float[Array, "N D"], advantage: Float[Array, " N"]) -> Float[Array, ""]:
    """Regression of a deterministic policy on what was played, as far as it was good: `mean(max(advantage, 0) * |action - target|**2)`.

    `action` is what the policy says now, `target` what was played. A negative advantage would push the action away without end, so
    only positive ones count.
    """
    _same_shape("policy_loss_continuous", action=action, target=target)
    if advantage.shape != action.shape[:-1]:
        raise ShapeError(
            f"policy_loss_continuous: advantage has shape {advantage.shape}; it must be that of action without its last axis, "
            f"{action.shape[:-1]}."
        )
    weight = jax.lax.stop_gradient(jnp.maximum(advantage, 0.0))
    return (weight * ((action - jax.lax.stop_gradient(target)) ** 2).sum(-1)).mean()


def multi_head_value_loss(
    value: Float[Array, "N H"], target: Float[Array, "N H"], weight: Float[Array, " H"] | None = None
) -> tuple[Float[Array, ""], Float[Array, " H"]]:
    """Mean squared error of each head, `[H]`, and their sum: what to minimise. With a weight, the sum is weighted."""
    _same_shape("multi_head_value_loss", value=value, target=target)
    per_head = ((value - jax.lax.stop_gradient(target)) ** 2).mean(0)
    if weight is None:
        return per_head.sum(), per_head
    if weight.shape != per_head.shape:
        raise ShapeError(f"multi_head_value_loss: weight has shape {weight.shape}; it must be {per_head.shape}, one for each head.")
    return per_head @ jax.lax.stop_gradient(weight), per_head


def _same_shape(function: str, **arrays: Array) -> None:
    (first, x), (second, y) = arrays.items()
    if jnp.shape(x) != jnp.shape(y):
        raise ShapeError(f"{function}: {second} has shape {jnp.shape(y)}; it must be that of {first}, {jnp.shape(x)}.")
