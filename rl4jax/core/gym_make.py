"""Make the Gymnasium vector environment that `GymVecEnv` runs, and find out how it behaves."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from .errors import EnvError, is_count, require


def make_vector_env(
    env: str | Callable[[], gymnasium.Env] | VectorEnv, num_envs: int | None, asynchronous: bool, env_kwargs: dict[str, Any]
) -> VectorEnv:
    if isinstance(env, VectorEnv):
        if env_kwargs or asynchronous or num_envs not in (None, env.num_envs):
            raise EnvError(f"GymVecEnv: {env} is a ready vector environment of {env.num_envs}; give it no further arguments.")
        return env
    if isinstance(env, gymnasium.Env):
        raise EnvError(f"GymVecEnv: {env} is one environment; give the function that makes it, such as lambda: {type(env).__name__}(...).")
    if not isinstance(env, str) and not callable(env):
        raise EnvError(f"GymVecEnv: env = {env!r} must be a Gymnasium id, a function that makes a gymnasium.Env, or a VectorEnv.")
    require(is_count(num_envs), "GymVecEnv.num_envs", num_envs, "a positive integer", "Use GymVecEnv(env, num_envs=8).")
    make = functools.partial(gymnasium.make, env, **env_kwargs) if isinstance(env, str) else functools.partial(env, **env_kwargs)
    makers = [functools.partial(_make_one, make)] * int(num_envs or 0)
    if asynchronous:
        # Forking a process in which JAX has threads can deadlock: spawn.
        return AsyncVectorEnv(makers, context="spawn", copy=False, autoreset_mode=AutoresetMode.SAME_STEP)
    return SyncVectorEnv(makers, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)


class KeepLastObs(gymnasium.Wrapper):
    """Hand out the last observation of an episode as a copy.

    In SAME_STEP mode the environment is reset before the caller sees it, and many environments write into one array for ever.
    """

    def step(self, action: Any) -> tuple:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return copy.deepcopy(obs) if terminated or truncated else obs, reward, terminated, truncated, info


def _make_one(make: Callable[[], gymnasium.Env]) -> gymnasium.Env:
    return KeepLastObs(make())


def autoreset_mode(envs: VectorEnv) -> AutoresetMode:
    mode = envs.metadata.get("autoreset_mode")
    try:
        return AutoresetMode(mode)
    except ValueError as error:
        raise EnvError(
            f"GymVecEnv: {envs}.metadata['autoreset_mode'] is {mode!r}; it must be one of {[str(m) for m in AutoresetMode]}, or "
            f"nobody can know where its episodes end."
        ) from error


def mask_method(envs: VectorEnv) -> Callable[[], tuple] | None:
    """How to call `action_masks()` of each environment, if they have it."""
    base = envs.unwrapped
    if isinstance(base, SyncVectorEnv):
        found = base.envs[0].has_wrapper_attr("action_masks")
    elif isinstance(base, AsyncVectorEnv):
        found = base.call("has_wrapper_attr", "action_masks")[0]
    else:
        return None
    return functools.partial(base.call, "action_masks") if found else None
