"""What a model says today of what was done in a rollout, whoever played it."""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Bool, Float, PyTree

from rl4jax.nn.distributions import AbstractDistribution
from rl4jax.nn.model import Model, Sequential, apply, reset_carry
from rl4jax.nn.privileged import Privileged, informed

from .rollout import Rollout
from .values_after import next_values


class Steps(NamedTuple):
    """What was seen and done, as far as a model is asked about it."""

    obs: PyTree
    action: PyTree
    mask: Bool[Array, "*N A"] | None
    is_first: Bool[Array, "*N"]
    privileged: PyTree = None  # what only a critic may see


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
        pi, value, carry = apply(informed(model, now.privileged), now.obs, carry, now.mask)
        return carry, _said(pi, value, now.action, carry)

    if carry is None:
        return jax.vmap(one, in_axes=(None, 0))(None, steps)[1]
    if isinstance(model, Sequential) and not isinstance(model, Privileged):  # whose values need more than features
        return _reconsider_columns(model, steps, carry)
    return jax.lax.scan(jax.vmap(one), carry, steps)[1]


def _reconsider_columns(model: Sequential, steps: Any, carry: PyTree) -> Said:
    """The same, twice as fast: only the memory is computed step by step."""

    def one(features, action, mask, carry):
        pi, value = model.answer(features)
        return _said(pi.masked(mask), value, action, carry)

    features, carries = model.along(steps.obs, carry, steps.is_first)
    return jax.vmap(jax.vmap(one))(features, steps.action, steps.mask, carries)


def _said(pi: AbstractDistribution, value: Float[Array, ""], action: PyTree, next_carry: PyTree) -> Said:
    return Said(pi.log_prob(action), pi.entropy(action), value, next_carry)


def revisit(model: Model, rollout: Rollout) -> tuple[Said, Float[Array, "T B"]]:
    """What the model says of each step `[T, B]`, and its value of what the step led to: 0 after a termination."""
    shape = rollout.reward.shape
    steps = Steps(rollout.obs, rollout.action, rollout.mask, rollout.is_first, rollout.privileged)
    if rollout.carry is None:
        said = reconsider(model, jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), steps), None)
        said = jax.tree.map(lambda x: x.reshape(shape), said)
    else:
        said = reconsider(model, steps, rollout.carry)
    after = (rollout.next_obs, said.next_carry, rollout.next_privileged)
    following = next_values(model, said.value, *after, rollout.terminated, rollout.truncated)
    return said, following
