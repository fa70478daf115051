"""The value of what each step of a rollout led to."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from rl4jax.nn.model import Model, apply
from rl4jax.nn.privileged import informed


def next_values(
    model: Model,
    value: Float[Array, "T B"],
    next_obs: PyTree,
    next_carry: PyTree,
    next_privileged: PyTree,
    terminated: Bool[Array, "T B"],
    truncated: Bool[Array, "T B"],
) -> Float[Array, "T B"]:
    """0 after a termination, else the value of `next_obs`, where the carry is not reset yet. `value` is that of the steps themselves.

    What a step led to is what the next one sees, except where an episode was truncated. That is rare, and the values of all next
    observations cost as much as those of all others: so they are computed only if there is one.
    """

    def value_of(obs, carry, privileged):
        return apply(informed(model, privileged), obs, carry)[1]

    after = (next_obs, next_carry, next_privileged)
    last = jax.vmap(value_of)(*jax.tree.map(lambda x: x[-1], after))
    following = jax.lax.cond(
        truncated.any(),
        lambda: jax.vmap(jax.vmap(value_of))(*after),
        lambda: jnp.concatenate([value[1:], last[None]]),
    )
    return jnp.where(terminated, 0.0, following)
