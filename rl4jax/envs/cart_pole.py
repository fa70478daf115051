"""CartPole: keep a pole upright on a cart that can only be pushed left or right (Barto, Sutton and Anderson 1983).

Dynamics, rewards and limits of Gymnasium's CartPole-v1, in float32.
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


class CartPoleState(eqx.Module):
    x: Float[Array, ""]
    x_dot: Float[Array, ""]
    theta: Float[Array, ""]  # from upright, clockwise, in radians
    theta_dot: Float[Array, ""]
    t: Int32[Array, ""]


class CartPole(AbstractEnv):
    """Push left (0) or right (1); reward 1 on each step, the last included; ends when the pole tilts or the cart leaves."""

    gravity: Number = 9.8
    cart_mass: Number = 1.0
    pole_mass: Number = 0.1
    half_length: Number = 0.5  # from the hinge to the pole's centre of mass
    force: Number = 10.0
    dt: Number = 0.02
    x_limit: Number = 2.4
    theta_limit: Number = math.radians(12)
    start_range: Number = 0.05  # all four numbers start within plus or minus this
    max_steps: Number = 500

    @property
    def observation_space(self) -> spaces.Box:
        high = np.array(
            [2 * self.x_limit, np.inf, 2 * self.theta_limit, np.inf], np.float32
        )  # beyond the limits: the last obs is inside too
        return spaces.Box(-high, high, dtype=np.float32)

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(2)

    def reset(self, key: PRNGKeyArray) -> tuple[CartPoleState, Float[Array, "4"]]:
        obs = jax.random.uniform(key, (4,), jnp.float32, -self.start_range, self.start_range)
        return self.state_from_obs(obs), obs

    def step(self, state: CartPoleState, action: ArrayLike, key: PRNGKeyArray) -> tuple[CartPoleState, Step]:
        force = jnp.where(action == 1, self.force, -self.force)
        x_acc, theta_acc = self.accelerations(state, force)
        # Explicit Euler, as in Gymnasium: the positions move with the old velocities.
        state = CartPoleState(
            x=state.x + self.dt * state.x_dot,
            x_dot=state.x_dot + self.dt * x_acc,
            theta=state.theta + self.dt * state.theta_dot,
            theta_dot=state.theta_dot + self.dt * theta_acc,
            t=state.t + 1,
        )
        return state, Step(
            obs=jnp.stack([state.x, state.x_dot, state.theta, state.theta_dot]),
            reward=jnp.float32(1),
            terminated=(jnp.abs(state.x) > self.x_limit) | (jnp.abs(state.theta) > self.theta_limit),
            truncated=state.t >= self.max_steps,
        )

    def accelerations(self, state: CartPoleState, force: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Of the cart and of the pole's angle; Florian 2007, without friction."""
        sin, cos = jnp.sin(state.theta), jnp.cos(state.theta)
        total_mass = self.cart_mass + self.pole_mass
        pole_moment = self.pole_mass * self.half_length
        push = (force + pole_moment * state.theta_dot**2 * sin) / total_mass
        theta_acc = (self.gravity * sin - cos * push) / (self.half_length * (4 / 3 - self.pole_mass * cos**2 / total_mass))
        return push - pole_moment * theta_acc * cos / total_mass, theta_acc

    def state_from_obs(self, obs: ArrayLike) -> CartPoleState:
        x, x_dot, theta, theta_dot = jnp.asarray(obs, jnp.float32)
        return CartPoleState(x=x, x_dot=x_dot, theta=theta, theta_dot=theta_dot, t=jnp.int32(0))

    def render(self, state: CartPoleState) -> UInt8[np.ndarray, "H W 3"]:
        x, theta, limit, length = float(state.x), float(state.theta), float(self.x_limit), 2 * float(self.half_length)
        canvas = draw.Canvas(600, 400, origin=(300, 300), scale=600 / (2.2 * limit))
        canvas.line([(-limit, 0), (limit, 0)], draw.LINE, 0.05)
        for stop in (-limit, limit):
            canvas.line([(stop, -0.12), (stop, 0.12)], draw.MUTED, 0.05)
        canvas.box((x - 0.3, 0.08), (x + 0.3, 0.42), draw.INK, round_by=0.06)
        for wheel in (x - 0.18, x + 0.18):
            canvas.circle((wheel, 0.08), 0.09, draw.MUTED)
        canvas.line([(x, 0.36), (x + length * math.sin(theta), 0.36 + length * math.cos(theta))], draw.ORANGE, 0.11)
        canvas.circle((x, 0.36), 0.045, draw.PAPER)
        canvas.caption(f"step {int(state.t)}")
        return canvas.pixels()
