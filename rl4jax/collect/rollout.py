"""What an agent saw, did and got in T steps of B environments."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, PyTree


class Rollout(NamedTuple):
    """Experience of `T` steps in `B` environments, time first; the same from both kinds of environment.

    Rewards and observations are as the environment gave them. To shape rewards, change them before the update:
    `rollout._replace(reward=...)`.
    """

    obs: PyTree  # [T, B, ...], what was acted on
    next_obs: PyTree  # what the step led to; at an end the true last observation, not the first of the next episode
    action: PyTree  # as sampled; a continuous one is clipped to its box only for the environment
    log_prob: Float[Any, "T B"]  # None where nobody asks: Q-learning on the host
    value: Float[Array, "T B"] | None  # by the critic that played; None where the learner asks its own, as in V-trace and Q-learning
    next_value: Float[Array, "T B"] | None  # likewise, of next_obs; 0 after a termination
    reward: Float[Array, "T B"]
    terminated: Bool[Array, "T B"]
    truncated: Bool[Array, "T B"]
    is_first: Bool[Array, "T B"]  # this step begins an episode: a recurrent carry is reset before it
    mask: Bool[Array, "T B A"] | None  # allowed actions
    valid: Bool[Array, "T B"]  # false where nothing happened (see `VecStep.valid`): every mean is over valid slots
    carry: PyTree  # [B, ...], of a recurrent model before the first step; None without
    privileged: PyTree  # what only a critic may see; None if there is nothing
    episode_return: Float[Array, "T B"]  # of an episode that ended here, from its very start; NaN elsewhere
    episode_length: Int32[Array, "T B"]  # likewise; 0 elsewhere
    next_privileged: PyTree = None  # beside next_obs
    memory: PyTree = None  # [T, B, ...], of a model that chooses by itself, after each step

    @property
    def ended(self) -> Bool[Array | np.ndarray, "T B"]:
        """Where an episode ended, for either reason."""
        return (self.terminated | self.truncated) & self.valid

    @property
    def mean_episode_return(self) -> Float[Array, ""]:
        """Mean over the episodes that ended in this rollout; NaN if none did."""
        return jnp.where(self.ended, self.episode_return, 0.0).sum() / self.ended.sum()

    @property
    def mean_episode_length(self) -> Float[Array, ""]:
        """Likewise of their lengths."""
        return jnp.where(self.ended, self.episode_length, 0).sum() / self.ended.sum()

    def episode_returns(self) -> list[float]:
        """The returns of the episodes that ended in this rollout, in order of time."""
        return np.asarray(self.episode_return)[np.asarray(self.ended)].tolist()
