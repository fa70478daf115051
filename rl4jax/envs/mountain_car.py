"""MountainCar: a car too weak for the hill must first swing back to gain speed (Moore 1990).

Dynamics, rewards and limits of Gymnasium's MountainCar-v0, in float32. `mountain_car_continuous.py` drives the same hill.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, ArrayLike, Float, Int32, PRNGKeyArray, UInt8

from rl4jax.core.env import AbstractEnv, Step
from rl4jax.core.number import Number

from . import draw


class MountainCarState(eqx.Module):
    position: Float[Array, ""]
    velocity: Float[Array, ""]
    t: Int32[Array, ""]


class MountainCar(AbstractEnv):
    """Push left (0), not at all (1) or right (2); reward -1 on each step, the last included; terminates on the hill."""

    gravity: Number = 0.0025
    force: Number = 0.001
    max_speed: Number = 0.07
    min_position: Number = -1.2
    max_position: Number = 0.6
    goal_position: Number = 0.5
    goal_velocity: Number = 0.0
    min_start: Number = -0.6
    max_start: Number = -0.4
    max_steps: Number = 200

    @property
    def observation_space(self) -> spaces.Box:
        low, high = [self.min_position, -self.max_speed], [self.max_position, self.max_speed]
        return spaces.Box(np.array(low, np.float32), np.array(high, np.float32), dtype=np.float32)

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(3)

    def reset(self, key: PRNGKeyArray) -> tuple[MountainCarState, Float[Array, "2"]]:
        position = jax.random.uniform(key, (), jnp.float32, self.min_start, self.max_start)
        state = MountainCarState(position=position, velocity=jnp.float32(0), t=jnp.int32(0))
        return state, jnp.stack([state.position, state.velocity])

    def step(self, state: MountainCarState, action: ArrayLike, key: PRNGKeyArray) -> tuple[MountainCarState, Step]:
        push = (jnp.asarray(action, jnp.float32) - 1) * self.force
        state = roll(state, push, self.gravity, self.max_speed, self.min_position, self.max_position)
        return state, Step(
            obs=jnp.stack([state.position, state.velocity]),
            reward=jnp.float32(-1),
            terminated=(state.position >= self.goal_position) & (state.velocity >= self.goal_velocity),
            truncated=state.t >= self.max_steps,
        )

    def state_from_obs(self, obs: ArrayLike) -> MountainCarState:
        position, velocity = jnp.asarray(obs, jnp.float32)
        return MountainCarState(position=position, velocity=velocity, t=jnp.int32(0))

    def render(self, state: MountainCarState) -> UInt8[np.ndarray, "H W 3"]:
        return draw_hill(state, float(self.min_position), float(self.max_position), float(self.goal_position))


def roll(
    state: MountainCarState, push: Float[Array, ""], gravity: Number, max_speed: Number, min_position: Number, max_position: Number
) -> MountainCarState:
    """One step down the slope of the hill `sin(3 position)`; the wall on the left stops the car."""
    velocity = jnp.clip(state.velocity + push - gravity * jnp.cos(3 * state.position), -max_speed, max_speed)
    position = jnp.clip(state.position + velocity, min_position, max_position)
    velocity = jnp.where((position <= min_position) & (velocity < 0), jnp.float32(0), velocity)
    return MountainCarState(position=position, velocity=velocity, t=state.t + 1)


def draw_hill(state: MountainCarState, left: float, right: float, goal: float) -> UInt8[np.ndarray, "H W 3"]:
    position = float(state.position)
    scale = 600 / (right - left)
    canvas = draw.Canvas(600, 400, origin=(-left * scale, 405), scale=scale)

    slope = [(x, height(x)) for x in np.linspace(left - 0.1, right + 0.1, 150).tolist()]
    canvas.polygon([(slope[0][0], -1), *slope, (slope[-1][0], -1)], draw.CELL)
    canvas.line(slope, draw.MUTED, 0.008)
    flag = height(goal) + 0.17
    canvas.line([(goal, height(goal)), (goal, flag)], draw.INK, 0.008)
    canvas.polygon([(goal, flag), (goal + 0.07, flag - 0.025), (goal, flag - 0.05)], draw.GREEN)

    # The car stands on its wheels, turned to the slope: the derivative of height is 1.35 cos(3 x).
    angle, ground = math.atan(1.35 * math.cos(3 * position)), (position, height(position))
    canvas.polygon(draw.turned([(-0.07, 0.025), (0.07, 0.025), (0.06, 0.075), (-0.06, 0.075)], angle, ground), draw.BLUE)
    for wheel in draw.turned([(-0.04, 0.024), (0.04, 0.024)], angle, ground):
        canvas.circle(wheel, 0.02, draw.INK)
    canvas.caption(f"step {int(state.t)}")
    return canvas.pixels()


def height(position: float) -> float:
    return 0.45 * math.sin(3 * position) + 0.55
