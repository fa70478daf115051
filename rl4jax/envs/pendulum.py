"""Pendulum: swing a pole up and hold it there with a torque too weak to lift it at once.

Dynamics, rewards and limits of Gymnasium's Pendulum-v1, in float32.
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


class PendulumState(eqx.Module):
    theta: Float[Array, ""]  # from upright, counter-clockwise, in radians; never wrapped
    theta_dot: Float[Array, ""]
    t: Int32[Array, ""]


class Pendulum(AbstractEnv):
    """The action is a torque; the cost, of the state before the step, is `theta² + 0.1 theta_dot² + 0.001 torque²`. Never terminates."""

    gravity: Number = 10.0
    mass: Number = 1.0
    length: Number = 1.0
    dt: Number = 0.05
    max_speed: Number = 8.0
    max_torque: Number = 2.0
    max_steps: Number = 200

    @property
    def observation_space(self) -> spaces.Box:
        high = np.array([1, 1, self.max_speed], np.float32)
        return spaces.Box(-high, high, dtype=np.float32)

    @property
    def action_space(self) -> spaces.Box:
        high = np.array([self.max_torque], np.float32)
        return spaces.Box(-high, high, dtype=np.float32)

    def reset(self, key: PRNGKeyArray) -> tuple[PendulumState, Float[Array, "3"]]:
        angle, speed = jax.random.uniform(key, (2,), jnp.float32, -1, 1)
        state = PendulumState(theta=math.pi * angle, theta_dot=speed, t=jnp.int32(0))
        return state, self.observe(state)

    def step(self, state: PendulumState, action: ArrayLike, key: PRNGKeyArray) -> tuple[PendulumState, Step]:
        torque = jnp.clip(jnp.asarray(action, jnp.float32)[0], -self.max_torque, self.max_torque)
        angle = (state.theta + math.pi) % (2 * math.pi) - math.pi
        cost = angle**2 + 0.1 * state.theta_dot**2 + 0.001 * torque**2

        acceleration = 1.5 * self.gravity / self.length * jnp.sin(state.theta) + 3 / (self.mass * self.length**2) * torque
        theta_dot = jnp.clip(state.theta_dot + self.dt * acceleration, -self.max_speed, self.max_speed)
        state = PendulumState(theta=state.theta + self.dt * theta_dot, theta_dot=theta_dot, t=state.t + 1)
        return state, Step(
            obs=self.observe(state),
            reward=-cost,
            terminated=jnp.array(False),
            truncated=state.t >= self.max_steps,
        )

    def observe(self, state: PendulumState) -> Float[Array, "3"]:
        return jnp.stack([jnp.cos(state.theta), jnp.sin(state.theta), state.theta_dot])

    def state_from_obs(self, obs: ArrayLike) -> PendulumState:
        cos, sin, theta_dot = jnp.asarray(obs, jnp.float32)
        return PendulumState(theta=jnp.arctan2(sin, cos), theta_dot=theta_dot, t=jnp.int32(0))

    def render(self, state: PendulumState) -> UInt8[np.ndarray, "H W 3"]:
        theta, length = float(state.theta), float(self.length)
        canvas = draw.Canvas(400, 400, origin=(200, 200), scale=150 / length)
        canvas.circle((0, 0), 1.12 * length, draw.LINE)
        canvas.circle((0, 0), 1.11 * length, draw.PAPER)
        canvas.line([(0, 1.08 * length), (0, 1.15 * length)], draw.GREEN, 0.04 * length)  # upright: the goal
        tip = (-length * math.sin(theta), length * math.cos(theta))
        canvas.line([(0, 0), tip], draw.RED, 0.16 * length)
        canvas.circle((0, 0), 0.05 * length, draw.INK)
        canvas.caption(f"step {int(state.t)}")
        return canvas.pixels()
