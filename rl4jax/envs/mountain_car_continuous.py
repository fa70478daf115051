"""MountainCarContinuous: the same hill with a motor to dose, and a price on its use.

Dynamics, rewards and limits of Gymnasium's MountainCarContinuous-v0, in float32.
"""

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, UInt8

from rl4jax.core.env import AbstractEnv, Step
from rl4jax.core.number import Number

from .mountain_car import MountainCarState, draw_hill, roll


class MountainCarContinuous(AbstractEnv):
    """The action is a push in [-1, 1]; reward 100 at the goal, less `0.1 action²` on each step; terminates on the hill."""

    gravity: Number = 0.0025
    power: Number = 0.0015
    max_speed: Number = 0.07
    min_position: Number = -1.2
    max_position: Number = 0.6
    goal_position: Number = 0.45
    goal_velocity: Number = 0.0
    min_start: Number = -0.6
    max_start: Number = -0.4
    max_steps: Number = 999

    @property
    def observation_space(self) -> spaces.Box:
        low, high = [self.min_position, -self.max_speed], [self.max_position, self.max_speed]
        return spaces.Box(np.array(low, np.float32), np.array(high, np.float32), dtype=np.float32)

    @property
    def action_space(self) -> spaces.Box:
        return spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, key: PRNGKeyArray) -> tuple[MountainCarState, Float[Array, "2"]]:
        position = jax.random.uniform(key, (), jnp.float32, self.min_start, self.max_start)
        state = MountainCarState(position=position, velocity=jnp.float32(0), t=jnp.int32(0))
        return state, jnp.stack([state.position, state.velocity])

    def step(self, state: MountainCarState, action: ArrayLike, key: PRNGKeyArray) -> tuple[MountainCarState, Step]:
        asked = jnp.asarray(action, jnp.float32)[0]
        push = self.power * jnp.clip(asked, -1, 1)
        state = roll(state, push, self.gravity, self.max_speed, self.min_position, self.max_position)
        terminated = (state.position >= self.goal_position) & (state.velocity >= self.goal_velocity)
        return state, Step(
            obs=jnp.stack([state.position, state.velocity]),
            # As in Gymnasium, the price is of the action asked for, also where it was clipped.
            reward=jnp.where(terminated, jnp.float32(100), jnp.float32(0)) - 0.1 * asked**2,
            terminated=terminated,
            truncated=state.t >= self.max_steps,
        )

    def state_from_obs(self, obs: ArrayLike) -> MountainCarState:
        position, velocity = jnp.asarray(obs, jnp.float32)
        return MountainCarState(position=position, velocity=velocity, t=jnp.int32(0))

    def render(self, state: MountainCarState) -> UInt8[np.ndarray, "H W 3"]:
        return draw_hill(state, float(self.min_position), float(self.max_position), float(self.goal_position))
