"""Acrobot: swing the tip of a two-link pendulum above a line by a torque at the joint between the links (Sutton 1996).

Dynamics ("book" version), rewards and limits of Gymnasium's Acrobot-v1, in float32.
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


class AcrobotState(eqx.Module):
    theta_1: Float[Array, ""]  # of the first link, from hanging down, counter-clockwise, in [-pi, pi]
    theta_2: Float[Array, ""]  # of the second link relative to the first
    theta_1_dot: Float[Array, ""]
    theta_2_dot: Float[Array, ""]
    t: Int32[Array, ""]


class Acrobot(AbstractEnv):
    """Torque -1, 0 or +1 (actions 0, 1, 2); reward -1 on each step but 0 on the last; terminates when the tip is high enough."""

    gravity: Number = 9.8
    torque: Number = 1.0
    length_1: Number = 1.0
    length_2: Number = 1.0
    mass_1: Number = 1.0
    mass_2: Number = 1.0
    center_1: Number = 0.5  # from the hinge to the link's centre of mass
    center_2: Number = 0.5
    inertia: Number = 1.0  # of each link
    dt: Number = 0.2
    max_speed_1: Number = 4 * math.pi
    max_speed_2: Number = 9 * math.pi
    goal_height: Number = 1.0  # of the tip above the fixed hinge
    start_range: Number = 0.1
    max_steps: Number = 500

    @property
    def observation_space(self) -> spaces.Box:
        high = np.array([1, 1, 1, 1, self.max_speed_1, self.max_speed_2], np.float32)
        return spaces.Box(-high, high, dtype=np.float32)

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(3)

    def reset(self, key: PRNGKeyArray) -> tuple[AcrobotState, Float[Array, "6"]]:
        y = jax.random.uniform(key, (4,), jnp.float32, -self.start_range, self.start_range)
        state = AcrobotState(y[0], y[1], y[2], y[3], t=jnp.int32(0))
        return state, self.observe(state)

    def step(self, state: AcrobotState, action: ArrayLike, key: PRNGKeyArray) -> tuple[AcrobotState, Step]:
        torque = (jnp.asarray(action, jnp.float32) - 1) * self.torque
        y = jnp.stack([state.theta_1, state.theta_2, state.theta_1_dot, state.theta_2_dot])
        # One step of the classical Runge-Kutta method.
        k1 = self.derivative(y, torque)
        k2 = self.derivative(y + self.dt / 2 * k1, torque)
        k3 = self.derivative(y + self.dt / 2 * k2, torque)
        k4 = self.derivative(y + self.dt * k3, torque)
        y = y + self.dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        state = AcrobotState(
            theta_1=wrap(y[0]),
            theta_2=wrap(y[1]),
            theta_1_dot=jnp.clip(y[2], -self.max_speed_1, self.max_speed_1),
            theta_2_dot=jnp.clip(y[3], -self.max_speed_2, self.max_speed_2),
            t=state.t + 1,
        )
        tip = -self.length_1 * jnp.cos(state.theta_1) - self.length_2 * jnp.cos(state.theta_1 + state.theta_2)
        terminated = tip > self.goal_height
        return state, Step(
            obs=self.observe(state),
            reward=jnp.where(terminated, jnp.float32(0), jnp.float32(-1)),
            terminated=terminated,
            truncated=state.t >= self.max_steps,
        )

    def derivative(self, y: Float[Array, "4"], torque: Float[Array, ""]) -> Float[Array, "4"]:
        """Of angles and speeds; Sutton and Barto 1998, section 11.3."""
        theta_1, theta_2, speed_1, speed_2 = y
        cos, sin = jnp.cos(theta_2), jnp.sin(theta_2)
        coupling = self.mass_2 * self.length_1 * self.center_2
        inertia_2 = self.mass_2 * self.center_2**2 + self.inertia
        d1 = self.mass_1 * self.center_1**2 + self.mass_2 * self.length_1**2 + self.inertia + inertia_2 + 2 * coupling * cos
        d2 = inertia_2 + coupling * cos
        # Gravity pulls with the sine of the angle from hanging down: nothing moves a resting, hanging pendulum.
        phi_2 = self.mass_2 * self.center_2 * self.gravity * jnp.sin(theta_1 + theta_2)
        pull_1 = (self.mass_1 * self.center_1 + self.mass_2 * self.length_1) * self.gravity * jnp.sin(theta_1)
        phi_1 = pull_1 + phi_2 - coupling * speed_2 * (speed_2 + 2 * speed_1) * sin
        acc_2 = (torque + d2 / d1 * phi_1 - coupling * speed_1**2 * sin - phi_2) / (inertia_2 - d2**2 / d1)
        acc_1 = -(d2 * acc_2 + phi_1) / d1
        return jnp.stack([speed_1, speed_2, acc_1, acc_2])

    def observe(self, state: AcrobotState) -> Float[Array, "6"]:
        one, two = state.theta_1, state.theta_2
        return jnp.stack([jnp.cos(one), jnp.sin(one), jnp.cos(two), jnp.sin(two), state.theta_1_dot, state.theta_2_dot])

    def state_from_obs(self, obs: ArrayLike) -> AcrobotState:
        cos_1, sin_1, cos_2, sin_2, speed_1, speed_2 = jnp.asarray(obs, jnp.float32)
        return AcrobotState(jnp.arctan2(sin_1, cos_1), jnp.arctan2(sin_2, cos_2), speed_1, speed_2, t=jnp.int32(0))

    def render(self, state: AcrobotState) -> UInt8[np.ndarray, "H W 3"]:
        length_1, length_2, goal = float(self.length_1), float(self.length_2), float(self.goal_height)
        reach = length_1 + length_2
        angle_1 = float(state.theta_1)
        angle_2 = angle_1 + float(state.theta_2)
        elbow = (length_1 * math.sin(angle_1), -length_1 * math.cos(angle_1))
        tip = (elbow[0] + length_2 * math.sin(angle_2), elbow[1] - length_2 * math.cos(angle_2))

        canvas = draw.Canvas(400, 400, origin=(200, 200), scale=175 / reach)
        canvas.line([(-1.2 * reach, goal), (1.2 * reach, goal)], draw.GREEN, 0.01 * reach)
        canvas.line([(0, 0), elbow], draw.BLUE, 0.07 * reach)
        canvas.line([elbow, tip], draw.CYAN, 0.07 * reach)
        for joint in ((0, 0), elbow):
            canvas.circle(joint, 0.018 * reach, draw.PAPER)
        canvas.caption(f"step {int(state.t)}")
        return canvas.pixels()


def wrap(angle: Float[Array, ""]) -> Float[Array, ""]:
    """The same angle in [-pi, pi]; one that is already there stays exactly as it is."""
    return angle - 2 * math.pi * jnp.round(angle / (2 * math.pi))
