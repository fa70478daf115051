"""MultiDiscreteNav: walk to a goal by choosing a row move and a column move at once."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, ArrayLike, Bool, Float, Int32, PRNGKeyArray, UInt8

from rl4jax.core.env import AbstractEnv, Step
from rl4jax.core.errors import require
from rl4jax.core.number import Number

from . import draw


class MultiDiscreteNavState(eqx.Module):
    place: Int32[Array, "2"]  # row and column of the agent
    goal: Int32[Array, "2"]
    t: Int32[Array, ""]


class MultiDiscreteNav(AbstractEnv):
    """Two heads of three choices, row move and column move, each -1, 0 or +1 (0, 1, 2). A move off the board is masked, and stays."""

    size: int = eqx.field(default=5, static=True)
    goal_reward: Number = 1.0
    step_reward: Number = -0.1
    max_steps: Number = 50

    def __check_init__(self):
        require(2 <= self.size <= 1000, "MultiDiscreteNav.size", self.size, "from 2 to 1000")

    @property
    def observation_space(self) -> spaces.Box:
        return spaces.Box(0, 1, (4,), np.float32)

    @property
    def action_space(self) -> spaces.MultiDiscrete:
        return spaces.MultiDiscrete([3, 3])

    def reset(self, key: PRNGKeyArray) -> tuple[MultiDiscreteNavState, Float[Array, "4"]]:
        # Two different cells: the goal is drawn among the cells without the agent's, then moved past it.
        cells = self.size**2
        agent, goal = jax.random.randint(key, (2,), 0, jnp.array([cells, cells - 1]), jnp.int32)
        goal = goal + (goal >= agent).astype(jnp.int32)
        state = MultiDiscreteNavState(place=self.cell(agent), goal=self.cell(goal), t=jnp.int32(0))
        return state, self.observe(state)

    def step(self, state: MultiDiscreteNavState, action: ArrayLike, key: PRNGKeyArray) -> tuple[MultiDiscreteNavState, Step]:
        move = jnp.asarray(action, jnp.int32) - 1
        state = MultiDiscreteNavState(place=jnp.clip(state.place + move, 0, self.size - 1), goal=state.goal, t=state.t + 1)
        terminated = jnp.all(state.place == state.goal)
        return state, Step(
            obs=self.observe(state),
            reward=jnp.where(terminated, self.goal_reward, self.step_reward).astype(jnp.float32),
            terminated=terminated,
            truncated=state.t >= self.max_steps,
        )

    def action_mask(self, state: MultiDiscreteNavState) -> Bool[Array, "6"]:
        back, forth = state.place > 0, state.place < self.size - 1
        return jnp.stack([back, jnp.ones_like(back), forth], axis=1).reshape(6)

    def cell(self, index: Int32[Array, ""]) -> Int32[Array, "2"]:
        return jnp.stack([index // self.size, index % self.size])

    def observe(self, state: MultiDiscreteNavState) -> Float[Array, "4"]:
        return jnp.concatenate([state.place, state.goal]).astype(jnp.float32) / (self.size - 1)

    def state_from_obs(self, obs: ArrayLike) -> MultiDiscreteNavState:
        cells = jnp.round(jnp.asarray(obs, jnp.float32) * (self.size - 1)).astype(jnp.int32)
        return MultiDiscreteNavState(place=cells[:2], goal=cells[2:], t=jnp.int32(0))

    def render(self, state: MultiDiscreteNavState) -> UInt8[np.ndarray, "H W 3"]:
        canvas = draw.board(self.size, self.size, cell=max(16, 340 // self.size))
        goal_row, goal_column = np.asarray(state.goal).tolist()
        row, column = np.asarray(state.place).tolist()
        draw.star(canvas, draw.middle(goal_row, goal_column), 0.36, draw.GREEN)
        canvas.circle(draw.middle(row, column), 0.28, draw.PURPLE)
        canvas.caption(f"step {int(state.t)}")
        return canvas.pixels()
