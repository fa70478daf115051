"""Catch: move a paddle under a falling ball, seen as pixels (Mnih et al. 2014; bsuite, Osband et al. 2020)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, ArrayLike, Int32, PRNGKeyArray, UInt8

from rl4jax.core.env import AbstractEnv, Step
from rl4jax.core.errors import require

from . import draw


class CatchState(eqx.Module):
    ball: Int32[Array, ""]  # its column
    paddle: Int32[Array, ""]  # its column, on the bottom row
    t: Int32[Array, ""]  # the ball's row too: it falls from the top, one row per step


class Catch(AbstractEnv):
    """Move left (0), stay (1) or move right (2); at the bottom row the episode terminates with +1 if caught, -1 if not."""

    rows: int = eqx.field(default=10, static=True)
    columns: int = eqx.field(default=5, static=True)

    def __check_init__(self):
        require(self.rows >= 2, "Catch.rows", self.rows, "at least 2")
        require(self.columns >= 1, "Catch.columns", self.columns, "at least 1")

    @property
    def observation_space(self) -> spaces.Box:
        return spaces.Box(0, 255, (self.rows, self.columns, 1), np.uint8)

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(3)

    def reset(self, key: PRNGKeyArray) -> tuple[CatchState, UInt8[Array, "R C 1"]]:
        ball = jax.random.randint(key, (), 0, self.columns, jnp.int32)
        state = CatchState(ball=ball, paddle=jnp.int32(self.columns // 2), t=jnp.int32(0))
        return state, self.observe(state)

    def step(self, state: CatchState, action: ArrayLike, key: PRNGKeyArray) -> tuple[CatchState, Step]:
        move = jnp.asarray(action, jnp.int32) - 1
        state = CatchState(ball=state.ball, paddle=jnp.clip(state.paddle + move, 0, self.columns - 1), t=state.t + 1)
        terminated = state.t >= self.rows - 1
        caught = jnp.where(state.ball == state.paddle, jnp.float32(1), jnp.float32(-1))
        return state, Step(
            obs=self.observe(state),
            reward=jnp.where(terminated, caught, jnp.float32(0)),
            terminated=terminated,
            truncated=jnp.array(False),
        )

    def observe(self, state: CatchState) -> UInt8[Array, "R C 1"]:
        row, column = jnp.arange(self.rows)[:, None, None], jnp.arange(self.columns)[:, None]
        ball = (row == state.t) & (column == state.ball)
        paddle = (row == self.rows - 1) & (column == state.paddle)
        return (ball | paddle).astype(jnp.uint8) * 255

    def render(self, state: CatchState) -> UInt8[np.ndarray, "H W 3"]:
        canvas = draw.board(self.rows, self.columns, cell=max(12, 360 // self.rows))
        left, bottom = int(state.paddle), -self.rows
        canvas.box((left + 0.06, bottom + 0.08), (left + 0.94, bottom + 0.36), draw.BLUE, round_by=0.12)
        canvas.circle(draw.middle(int(state.t), int(state.ball)), 0.28, draw.ORANGE)
        canvas.caption(f"step {int(state.t)}")
        return canvas.pixels()
