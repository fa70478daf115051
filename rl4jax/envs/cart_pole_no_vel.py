"""CartPole whose velocities cannot be seen: a task for memory."""

import equinox as eqx
import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, UInt8

from rl4jax.core.env import AbstractEnv, Step

from .cart_pole import CartPole, CartPoleState


class CartPoleNoVel(AbstractEnv):
    """`CartPole` that shows only the position of the cart and the angle of the pole; everything else is the same.

    Two observations tell a velocity, so a recurrent policy can balance and a feed-forward one cannot.
    """

    cart_pole: CartPole = eqx.field(default_factory=CartPole)

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        space = self.cart_pole.observation_space
        return gymnasium.spaces.Box(space.low[[0, 2]], space.high[[0, 2]], dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return self.cart_pole.action_space

    def reset(self, key: PRNGKeyArray) -> tuple[CartPoleState, Float[Array, "2"]]:
        state, obs = self.cart_pole.reset(key)
        return state, seen(obs)

    def step(self, state: CartPoleState, action: PyTree, key: PRNGKeyArray) -> tuple[CartPoleState, Step]:
        state, step = self.cart_pole.step(state, action, key)
        return state, step._replace(obs=seen(step.obs))

    def render(self, state: CartPoleState) -> UInt8[np.ndarray, "H W 3"]:
        return self.cart_pole.render(state)


def seen(obs: Float[Array, "4"]) -> Float[Array, "2"]:
    return jnp.stack([obs[0], obs[2]])
