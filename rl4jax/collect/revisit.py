"""What a model says today of what was done in a rollout, whoever played it."""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Bool, Float, PyTree

from rl4jax.nn.model import Model, apply, reset_carry

from .rollout import Rollout
from .values_after import next_values


class Steps(NamedTuple):
    """What was seen and done, as far as a model is asked about it."""

    obs: PyTree
    action: PyTree
    mask: Bool[Array, "*N A"] | None
    is_first: Bool[Array, "*N"]


class Said(NamedTuple):
    """What a model says of steps."""

    log_prob: Float[Array, "*N"]
    entropy: Float[Array, "*N"]
    value: Float[Array, "*N"]
    next_carry: PyTree  # after the step; None without a memory


def reconsider(model: Model, steps: Any, carry: PyTree) -> Said:
    """What the model says of `Steps`, or of anything with the same fields.

    Without a carry they are any batch `[N, ...]`. A recurrent model plays whole columns `[T, B, ...]` again, from `carry` `[B, ...]`.
    """

    def one(carry, now):
        carry = reset_carry(model, carry, now.is_first)
        pi, value, carry = apply(model, now.obs, carry, now.mask)
        return carry, Said(pi.log_prob(now.action), pi.entropy(now.action), value, carry)

    if carry is None:
        return jax.vmap(one, in_axes=(None, 0))(None, steps)[1]
    return jax.lax.scan(jax.vmap(one), carry, steps)[1]


def revisit(model: Model, rollout: Rollout) -> tuple[Said, Float[Array, "T B"]]:
    """What the model says of each step `[T, B]`, and its value of what the step led to: 0 after a termination."""
    shape = rollout.reward.shape
    steps = Steps(rollout.obs, rollout.action, rollout.mask, rollout.is_first)
    if rollout.carry is None:
        said = reconsider(model, jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), steps), None)
        said = jax.tree.map(lambda x: x.reshape(shape), said)
    else:
        said = reconsider(model, steps, rollout.carry)
    following = next_values(model, said.value, rollout.next_obs, said.next_carry, rollout.terminated, rollout.truncated)
    return said, following
