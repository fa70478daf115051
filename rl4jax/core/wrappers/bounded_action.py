"""Two ways to keep a continuous action inside its bounds."""

import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..env import AbstractEnv, EnvState, Step
from ..errors import EnvError, require
from .wrapper import AbstractWrapper


class ClipAction(AbstractWrapper):
    """Accept any real action and move it to the nearest one the environment allows. The bounds are read once, when it is made."""

    env: AbstractEnv
    low: Float[np.ndarray | Array, "*A"]  # arrays rather than a space: they are needed inside jit
    high: Float[np.ndarray | Array, "*A"]

    def __init__(self, env: AbstractEnv):
        box = _box(env, "ClipAction")
        self.env, self.low, self.high = env, box.low, box.high

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-np.inf, np.inf, self.low.shape)

    def step(self, state: EnvState, action: PyTree, key: PRNGKeyArray) -> tuple[EnvState, Step]:
        return self.env.step(state, jnp.clip(action, self.low, self.high), key)


class RescaleAction(AbstractWrapper):
    """Accept actions in `[low, high]` and stretch them to the bounds of the environment; what lies outside is clipped."""

    env: AbstractEnv
    inner_low: Float[np.ndarray | Array, "*A"]
    inner_high: Float[np.ndarray | Array, "*A"]
    low: float
    high: float

    def __init__(self, env: AbstractEnv, low: float = -1.0, high: float = 1.0):
        box = _box(env, "RescaleAction")
        require(box.is_bounded("both"), "RescaleAction: env.action_space", box, "bounded on both sides", "Use ClipAction.")
        require(low < high, "RescaleAction.low", low, f"less than high = {high}")
        self.env, self.inner_low, self.inner_high, self.low, self.high = env, box.low, box.high, low, high

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(self.low, self.high, self.inner_low.shape)

    def step(self, state: EnvState, action: PyTree, key: PRNGKeyArray) -> tuple[EnvState, Step]:
        share = (jnp.clip(action, self.low, self.high) - self.low) / (self.high - self.low)
        return self.env.step(state, self.inner_low + share * (self.inner_high - self.inner_low), key)


def _box(env: AbstractEnv, wrapper: str) -> gymnasium.spaces.Box:
    if not isinstance(env.action_space, gymnasium.spaces.Box):
        raise EnvError(f"{wrapper} needs a Box action space; {type(env).__name__} has {env.action_space}. Leave the wrapper away.")
    return env.action_space
