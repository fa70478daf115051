"""What an environment is: two pure functions and two spaces."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, UInt8

from .errors import EnvError

EnvState = Any  # whatever pytree of arrays the environment likes


class Step(NamedTuple):
    """What one step returns.

    `terminated` says that the episode ended by the rules of the environment: nothing comes after, so no value is bootstrapped.
    `truncated` says that somebody stopped watching, usually a time limit: the world went on, so the value of `obs` still counts.
    """

    obs: PyTree
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


class AbstractEnv(eqx.Module):
    """An environment as pure functions, to be run inside `jit`, `vmap` and `scan`.

    Fields are the constants of the world (masses, sizes, limits). Numbers stay ordinary fields, so they can be batched;
    a field that decides a shape, and anything that is not a number or an array, is `eqx.field(static=True)`.
    """

    @property
    @abc.abstractmethod
    def observation_space(self) -> gymnasium.Space:
        """What observations look like. Read outside compiled programs only."""

    @property
    @abc.abstractmethod
    def action_space(self) -> gymnasium.Space:
        """Which actions there are: Discrete, MultiDiscrete, Box, or a Dict or Tuple of them."""

    @abc.abstractmethod
    def reset(self, key: PRNGKeyArray) -> tuple[EnvState, PyTree]:
        """Start an episode: its first state and observation."""

    @abc.abstractmethod
    def step(self, state: EnvState, action: PyTree, key: PRNGKeyArray) -> tuple[EnvState, Step]:
        """Move on by one action. Never resets: `VecEnv` does."""

    # What follows is optional: an environment implements what it has.

    def action_mask(self, state: EnvState) -> Bool[Array, " A"] | None:
        """Which actions are allowed (true = allowed), flat, of length `flatdim(action_space)`; None if all always are."""
        return None

    def carry_over(self, last: EnvState, start: EnvState) -> EnvState:
        """The first state of the next episode, given the last one of this: for what outlives an episode, such as statistics."""
        return start

    def privileged(self, state: EnvState) -> PyTree:
        """What a critic may see during training and the policy may not; None if there is nothing."""
        return None

    def state_from_obs(self, obs: PyTree) -> EnvState:
        """A state that shows this observation, for planning and debugging."""
        raise EnvError(f"{type(self).__name__} does not implement state_from_obs(obs).")

    def render(self, state: EnvState) -> UInt8[np.ndarray, "H W 3"]:
        """A picture of one (unbatched) state."""
        raise EnvError(f"{type(self).__name__} does not implement render(state), so it has no picture to show.")
