"""What an exploration bonus is, and how it is added."""

from typing import Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Float

from rl4jax.collect.rollout import Rollout
from rl4jax.core.errors import ShapeError
from rl4jax.core.number import Number


@runtime_checkable
class IntrinsicReward(Protocol):
    """Pays for novelty. One method; one of your own needs nothing else, but must be a pytree of arrays to go through `jit` and `scan`."""

    def reward(self, rollout: Rollout) -> tuple[Float[Array, "T B"], "IntrinsicReward"]:
        """The bonus of each step of a rollout, 0 where `valid` is false, and what it pays by from now on."""
        ...


def combine_rewards(extrinsic: Float[Array, "*S"], intrinsic: Float[Array, "*S"], coef: Number) -> Float[Array, "*S"]:
    """`extrinsic + coef * intrinsic`.

    >>> combine_rewards(jnp.array([0.0, 1.0]), jnp.array([1.0, 0.5]), 0.5).tolist()
    [0.5, 1.25]
    """
    if jnp.shape(intrinsic) != jnp.shape(extrinsic):
        raise ShapeError(
            f"combine_rewards: intrinsic has shape {jnp.shape(intrinsic)}; it must be that of extrinsic, {jnp.shape(extrinsic)}. "
            "Both come from one rollout."
        )
    return extrinsic + coef * intrinsic
