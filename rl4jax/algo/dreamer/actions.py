"""Actions as a world model sees them, and distributions over them as DreamerV3 has them."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, PyTree

from rl4jax.core.errors import EnvError
from rl4jax.core.spaces import flatten
from rl4jax.nn.distributions import AbstractDistribution, Categorical, MultiCategorical, Normal
from rl4jax.nn.distributions.categorical import log_softmax

UNIMIX = 0.01  # share of the probability that all choices have in common
LEAST_STD, MOST_STD, STD_SHIFT = 0.1, 1.0, 2.0


class BoundedSpread(Normal):
    """A normal distribution whose spread is bounded already, by the space: it may be as wide as that is."""

    def clamped_log_std(self) -> Float[Array, "*S"]:
        return jnp.broadcast_to(self.log_std, self.mean.shape)


def check_actions(space: gymnasium.Space) -> None:
    """Raise unless an agent can act in this space."""
    if isinstance(space, spaces.Box):
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        if np.dtype(space.dtype).kind != "f":
            raise EnvError(f"dreamer: actions are {space}; a Box must hold floats. Use MultiDiscrete for choices.")
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (high - low < np.finfo(np.float32).max).all()):
            raise EnvError(f"dreamer: actions are {space}; a Box must have finite bounds. Wrap the environment to rescale them.")
        if not (low < high).all():
            raise EnvError(f"dreamer: actions are {space}; low must be less than high. Wrap the environment to leave out what is fixed.")
    elif not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        raise EnvError(f"dreamer: actions are {space}; they must be Discrete, MultiDiscrete or a Box. For others use PPO: rl.ppo.")


def num_outputs(space: gymnasium.Space) -> int:
    """How many numbers describe a distribution over these actions."""
    return int(spaces.flatdim(space)) * (2 if isinstance(space, spaces.Box) else 1)


def as_vector(space: gymnasium.Space, action: PyTree) -> Float[Array, " A"]:
    """Choices one-hot, numbers scaled from their bounds to [-1, 1]."""
    if isinstance(space, spaces.Box):
        middle, half = middle_and_half(space)
        return ((action - middle) / half).ravel()
    return flatten(space, action)


def distribution(space: Any, outputs: Float[Array, " O"]) -> AbstractDistribution:
    """Of choices with a uniform share; of numbers normal, around a tanh and with a spread between a tenth and all of the way to a bound."""
    if isinstance(space, spaces.Box):
        middle, half = middle_and_half(space)
        mean, spread = (x.reshape(space.shape) for x in jnp.split(outputs, 2))
        std = (MOST_STD - LEAST_STD) * jax.nn.sigmoid(spread + STD_SHIFT) + LEAST_STD
        return BoundedSpread(jnp.asarray(middle) + half * jnp.tanh(mean), jnp.log(half * std))
    if isinstance(space, spaces.Discrete):
        return Categorical(mixed(outputs))
    sizes = [int(n) for n in space.nvec.ravel()]
    heads = jnp.split(outputs, np.cumsum(sizes)[:-1])
    return MultiCategorical(jnp.concatenate([mixed(head) for head in heads]), tuple(sizes), space.shape)


def mixed(logits: Float[Array, " K"]) -> Float[Array, " K"]:
    """Logits of the probabilities with a uniform share."""
    return jnp.log((1 - UNIMIX) * jnp.exp(log_softmax(logits)) + UNIMIX / logits.size)


def middle_and_half(space: spaces.Box) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    low, high = space.low.astype(np.float32), space.high.astype(np.float32)
    return (low + high) / 2, (high - low) / 2
