"""Our environments for everybody else: a `gymnasium.Env` around an in-graph one."""

from typing import Any

import gymnasium
import jax
import numpy as np
from jaxtyping import PyTree

from .contract import check_contract
from .env import AbstractEnv
from .spaces import as_gymnasium


def to_gymnasium(env: AbstractEnv, render_mode: str | None = None) -> gymnasium.Env:
    """The environment as Gymnasium, and so Stable-Baselines3, CleanRL and others, know it. Masks are in `info["action_mask"]`."""
    return GymnasiumEnv(env, render_mode)


class GymnasiumEnv(gymnasium.Env):
    """A stateful shell: it holds the state and the key, and calls the compiled functions."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, env: AbstractEnv, render_mode: str | None = None):
        self.observation_space, self.action_space = check_contract(env)
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode = {render_mode!r} must be None or 'rgb_array'. Show the arrays with a viewer of your own.")
        self.env, self.render_mode = env, render_mode
        self._state: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[PyTree, dict[str, Any]]:
        super().reset(seed=seed)
        # Without a seed the episodes go on from the last one, as Gymnasium wants it.
        self._key, reset_key = jax.random.split(jax.random.key(self.np_random.integers(2**31)))
        self._state, obs, mask = jax.device_get(_reset(self.env, reset_key))
        return as_gymnasium(self.observation_space, obs), _info(mask)

    def step(self, action: Any) -> tuple[PyTree, float, bool, bool, dict[str, Any]]:
        if self._state is None:
            raise gymnasium.error.ResetNeeded(f"Call reset() before step() on {self}.")
        action = self._checked(action)
        self._key, step_key = jax.random.split(self._key)
        self._state, step, mask = jax.device_get(_step(self.env, self._state, action, step_key))
        obs = as_gymnasium(self.observation_space, step.obs)
        return obs, float(step.reward), bool(step.terminated), bool(step.truncated), _info(mask)

    def render(self) -> Any:
        return self.env.render(self._state) if self.render_mode == "rgb_array" else None

    def _checked(self, action: Any) -> Any:
        """As the compiled step wants it. Like Gymnasium's own, continuous actions may have any float dtype and leave their bounds."""
        if isinstance(self.action_space, gymnasium.spaces.Box):
            given = np.asarray(action)
            if given.shape == self.action_space.shape and given.dtype.kind in "fiu" and np.isfinite(given).all():
                return given.astype(self.action_space.dtype)
        elif self.action_space.contains(action):
            return jax.tree.map(np.asarray, action)
        raise ValueError(f"action = {action!r} ({type(action).__name__}) is not in action_space {self.action_space}.")


@jax.jit
def _reset(env: AbstractEnv, key: Any) -> tuple:
    state, obs = env.reset(key)
    return state, obs, env.action_mask(state)


@jax.jit
def _step(env: AbstractEnv, state: Any, action: PyTree, key: Any) -> tuple:
    state, step = env.step(state, action, key)
    return state, step, env.action_mask(state)


def _info(mask: np.ndarray | None) -> dict[str, Any]:
    return {} if mask is None else {"action_mask": mask.astype(np.int8)}
