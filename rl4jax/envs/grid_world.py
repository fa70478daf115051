"""GridWorld: walk to the last corner of a board. The smallest environment with an action mask."""

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

ROW_MOVES, COLUMN_MOVES = (-1, 0, 1, 0), (0, 1, 0, -1)  # up, right, down, left


class GridWorldState(eqx.Module):
    row: Int32[Array, ""]
    column: Int32[Array, ""]
    t: Int32[Array, ""]


class GridWorld(AbstractEnv):
    """Go up (0), right (1), down (2) or left (3) to the bottom right corner. A move off the board is masked, and stays."""

    size: int = eqx.field(default=7, static=True)
    goal_reward: Number = 1.0
    step_reward: Number = -0.01
    max_steps: Number = 100

    def __check_init__(self):
        require(2 <= self.size <= 1000, "GridWorld.size", self.size, "from 2 to 1000")

    @property
    def observation_space(self) -> spaces.Box:
        return spaces.Box(0, 1, (4,), np.float32)

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(4)

    def reset(self, key: PRNGKeyArray) -> tuple[GridWorldState, Float[Array, "4"]]:
        cell = jax.random.randint(key, (), 0, self.size**2 - 1, jnp.int32)  # any cell but the last, which is the goal
        state = GridWorldState(row=cell // self.size, column=cell % self.size, t=jnp.int32(0))
        return state, self.observe(state)

    def step(self, state: GridWorldState, action: ArrayLike, key: PRNGKeyArray) -> tuple[GridWorldState, Step]:
        last = self.size - 1
        state = GridWorldState(
            row=jnp.clip(state.row + jnp.array(ROW_MOVES, jnp.int32)[action], 0, last),
            column=jnp.clip(state.column + jnp.array(COLUMN_MOVES, jnp.int32)[action], 0, last),
            t=state.t + 1,
        )
        terminated = (state.row == last) & (state.column == last)
        return state, Step(
            obs=self.observe(state),
            reward=jnp.where(terminated, self.goal_reward, self.step_reward).astype(jnp.float32),
            terminated=terminated,
            truncated=state.t >= self.max_steps,
        )

    def action_mask(self, state: GridWorldState) -> Bool[Array, "4"]:
        last = self.size - 1
        return jnp.stack([state.row > 0, state.column < last, state.row < last, state.column > 0])

    def observe(self, state: GridWorldState) -> Float[Array, "4"]:
        goal = jnp.int32(self.size - 1)
        return jnp.stack([state.row, state.column, goal, goal]).astype(jnp.float32) / self.size

    def state_from_obs(self, obs: ArrayLike) -> GridWorldState:
        row, column = jnp.round(jnp.asarray(obs, jnp.float32)[:2] * self.size).astype(jnp.int32)
        return GridWorldState(row=row, column=column, t=jnp.int32(0))

    def render(self, state: GridWorldState) -> UInt8[np.ndarray, "H W 3"]:
        canvas = draw.board(self.size, self.size, cell=max(16, 336 // self.size))
        draw.star(canvas, draw.middle(self.size - 1, self.size - 1), 0.36, draw.GREEN)
        canvas.circle(draw.middle(int(state.row), int(state.column)), 0.3, draw.BLUE)
        canvas.caption(f"step {int(state.t)}")
        return canvas.pixels()
