"""Show the last few observations at once."""

import equinox as eqx
import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree, Shaped

from ..env import AbstractEnv, EnvState, Step
from ..errors import EnvError, is_count, require
from .wrapper import AbstractWrapper


class FrameStackState(eqx.Module):
    env: EnvState
    frames: Shaped[Array, "*S"]  # what the policy saw last, oldest first along the last axis


class FrameStack(AbstractWrapper):
    """Join the last `num_frames` observations along their last axis, oldest first: `[H, W, C]` becomes `[H, W, num_frames * C]`.

    An episode starts with its first observation repeated.
    """

    env: AbstractEnv
    num_frames: int = eqx.field(static=True)

    def __check_init__(self):
        require(is_count(self.num_frames), "FrameStack.num_frames", self.num_frames, "a positive integer")
        if not isinstance(self.env.observation_space, gymnasium.spaces.Box) or not self.env.observation_space.shape:
            raise EnvError(
                f"FrameStack needs a Box observation with at least one axis; {type(self.env).__name__} has "
                f"{self.env.observation_space}. Wrap it in FlattenObservation first."
            )

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        box = self.env.observation_space
        assert isinstance(box, gymnasium.spaces.Box)  # checked at construction
        low, high = (np.concatenate([bound] * self.num_frames, axis=-1) for bound in (box.low, box.high))
        return gymnasium.spaces.Box(low, high, dtype=box.dtype.type)

    def inner(self, state: FrameStackState) -> EnvState:
        return state.env

    def reset(self, key: PRNGKeyArray) -> tuple[FrameStackState, PyTree]:
        state, obs = self.env.reset(key)
        frames = jnp.concatenate([obs] * self.num_frames, axis=-1)
        return FrameStackState(state, frames), frames

    def step(self, state: FrameStackState, action: PyTree, key: PRNGKeyArray) -> tuple[FrameStackState, Step]:
        inner, step = self.env.step(state.env, action, key)
        frames = jnp.concatenate([state.frames[..., step.obs.shape[-1] :], step.obs], axis=-1)
        return FrameStackState(inner, frames), step._replace(obs=frames)
