"""Memory: the n-back task. Name the symbol that was shown some steps ago; only a model with memory beats chance."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, ArrayLike, Float, Int32, PRNGKeyArray, UInt8

from rl4jax.core.env import AbstractEnv, Step
from rl4jax.core.errors import require
from rl4jax.core.number import Number

from . import draw


class MemoryState(eqx.Module):
    shown: Int32[Array, " W"]  # the last delay + 1 symbols, oldest first; -1 before the episode began
    t: Int32[Array, ""]


class Memory(AbstractEnv):
    """Each step shows a random symbol, one-hot; reward 1 for naming the one shown `delay` steps ago (none in the first `delay` steps)."""

    num_symbols: int = eqx.field(default=4, static=True)
    delay: int = eqx.field(default=3, static=True)
    max_steps: Number = 20

    def __check_init__(self):
        require(self.num_symbols >= 2, "Memory.num_symbols", self.num_symbols, "at least 2")
        require(self.delay >= 0, "Memory.delay", self.delay, "zero or more")

    @property
    def observation_space(self) -> spaces.Box:
        return spaces.Box(0, 1, (self.num_symbols,), np.float32)

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(self.num_symbols)

    def reset(self, key: PRNGKeyArray) -> tuple[MemoryState, Float[Array, " S"]]:
        nothing = jnp.full(self.delay + 1, -1, jnp.int32)
        return self.show(MemoryState(shown=nothing, t=jnp.int32(0)), key)

    def step(self, state: MemoryState, action: ArrayLike, key: PRNGKeyArray) -> tuple[MemoryState, Step]:
        right = (state.t >= self.delay) & (state.shown[0] == action)
        state, obs = self.show(MemoryState(shown=state.shown, t=state.t + 1), key)
        return state, Step(
            obs=obs,
            reward=right.astype(jnp.float32),
            terminated=jnp.array(False),
            truncated=state.t >= self.max_steps,
        )

    def show(self, state: MemoryState, key: PRNGKeyArray) -> tuple[MemoryState, Float[Array, " S"]]:
        """Draw a symbol and forget the oldest."""
        symbol = jax.random.randint(key, (1,), 0, self.num_symbols, jnp.int32)
        state = MemoryState(shown=jnp.concatenate([state.shown[1:], symbol]), t=state.t)
        return state, jax.nn.one_hot(symbol[0], self.num_symbols, dtype=jnp.float32)

    def render(self, state: MemoryState) -> UInt8[np.ndarray, "H W 3"]:
        shown = np.asarray(state.shown).tolist()
        canvas = draw.board(1, len(shown), cell=max(40, min(90, 360 // len(shown))), footer=30)
        for column, symbol in enumerate(shown):
            if symbol >= 0:
                draw.tile(canvas, 0, column, draw.SYMBOLS[symbol % len(draw.SYMBOLS)])
                canvas.text(draw.middle(0, column), chr(ord("A") + symbol % 26), size=30, fill=draw.PAPER)
            canvas.text((column + 0.5, -1.17), "now" if column == self.delay else f"{self.delay - column} ago", size=13)
        canvas.line([(0.2, -1.34), (0.8, -1.34)], draw.INK, 0.03)  # under what the action must name
        canvas.caption(f"step {int(state.t)}")
        return canvas.pixels()
