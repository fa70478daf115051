"""Run an environment hard before training on it."""

from typing import Any

import gymnasium
import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from .contract import is_key
from .env import AbstractEnv
from .errors import EnvError, is_count, require
from .spaces import as_gymnasium, mask_allows, random_action
from .vec_env import VecEnv, VecState, VecStep


def check_env(env: AbstractEnv, *, key: PRNGKeyArray | None = None, num_steps: int = 200) -> None:
    """Raise unless the environment keeps its contract on `num_steps` random legal steps of four copies.

    Checked: shapes and dtypes; `jit`, `vmap` and plain Python give the same numbers for the same key;
    observations lie in their space and rewards are finite; masks always leave a choice; auto-reset hands over the true last
    observation; a picture, if there is one, is uint8 `[H, W, 3]`.
    """
    require(is_count(num_steps), "check_env: num_steps", num_steps, "a positive integer")
    name = type(env).__name__
    key = jax.random.key(0) if key is None else key
    vec_env = VecEnv(env, 4)  # checks what can be known without running

    first_obs, played = jax.jit(_play, static_argnums=2)(vec_env, key, num_steps)
    states, masks, actions, keys, steps = played
    first_obs, masks, steps = jax.device_get((first_obs, masks, steps))
    _check_values(env, name, first_obs, masks, steps)
    _check_reset(env, name, key)
    _check_step(env, name, states, actions, keys, steps)
    _check_render(env, name, _at(states, 0, 0))


def _play(env: VecEnv, key: PRNGKeyArray, num_steps: int) -> tuple:
    """First observations, and random legal steps: states acted on, masks, actions, keys and results, each `[T, B, ...]`."""

    def one(state: VecState, key: PRNGKeyArray):
        action_key, step_key = jax.random.split(key)
        mask = env.action_mask(state)
        action_keys = jax.random.split(action_key, env.num_envs)
        action = jax.vmap(lambda k, m: random_action(env.single_action_space, k, m))(action_keys, mask)
        own_key = jax.random.split(jax.random.clone(step_key), env.num_envs)[0]  # what VecEnv.step gives to the first one
        next_state, step = env.step(state, action, step_key)
        return next_state, (state.env, mask, action, own_key, step)

    reset_key, play_key = jax.random.split(key)
    state, obs = env.reset(reset_key)
    return obs, jax.lax.scan(one, state, jax.random.split(play_key, num_steps))[1]


def _check_values(env: AbstractEnv, name: str, first_obs: PyTree, masks: PyTree, steps: VecStep) -> None:
    if not np.isfinite(steps.reward).all():
        t, b = np.argwhere(~np.isfinite(steps.reward))[0]
        raise EnvError(f"{name}: reward at step {t} is {steps.reward[t, b]}; it must be finite. Look for a division by zero or a log of 0.")
    if masks is not None and not mask_allows(env.action_space, masks).all():
        t, b = np.argwhere(~mask_allows(env.action_space, masks))[0]
        raise EnvError(f"{name}: action_mask at step {t} is {masks[t, b]}, which allows nothing; leave each head at least one choice.")
    space = env.observation_space
    num_steps, num_envs = steps.reward.shape
    for b in range(num_envs):
        _check_contains(space, _at(first_obs, b), f"{name}: the first observation")
        for t in range(num_steps):
            _check_contains(space, _at(steps.obs, t, b), f"{name}: the observation at step {t}")
            _check_contains(space, _at(steps.final_obs, t, b), f"{name}: the observation at step {t}")


def _check_contains(space: gymnasium.Space, obs: PyTree, what: str) -> None:
    if not space.contains(as_gymnasium(space, obs)):
        raise EnvError(f"{what}, {obs}, is not in observation_space {space}. Widen the space or clip.")


def _check_reset(env: AbstractEnv, name: str, key: PRNGKeyArray) -> None:
    compiled = jax.jit(lambda env, key: env.reset(key))(env, jax.random.clone(key))
    for _ in range(2):
        _require_equal(compiled, env.reset(jax.random.clone(key)), f"{name}.reset {_IMPURE}")


def _check_step(env: AbstractEnv, name: str, states: PyTree, actions: PyTree, keys: PyTree, steps: VecStep) -> None:
    """One environment, stepped without jit or vmap from the recorded states, must agree with the compiled batch."""
    ended = (steps.terminated | steps.truncated)[:, 0]
    ends = np.flatnonzero(ended)[:2]  # where auto-reset could go wrong
    for t in sorted({0, min(1, len(ended) - 1), *ends}):
        next_state, step = env.step(_at(states, t, 0), _at(actions, t, 0), keys[t])
        got = (steps.final_obs, steps.reward, steps.terminated, steps.truncated)
        _require_equal(_at(got, t, 0), (step.obs, step.reward, step.terminated, step.truncated), f"{name}.step {_IMPURE}")
        if t + 1 < len(ended) and not ended[t]:
            _require_equal(_at(states, t + 1, 0), next_state, f"{name}.step {_IMPURE}")


_IMPURE = (
    "gives other numbers for the same key inside jit and vmap than in plain Python. Keep all state in the state and draw all "
    "randomness from the key: np.random and changed attributes are frozen when the program is compiled."
)


def _check_render(env: AbstractEnv, name: str, state: PyTree) -> None:
    if type(env).render is AbstractEnv.render:
        return
    try:
        frame = env.render(state)
    except EnvError:  # a wrapper around an environment without a picture
        return
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[-1] != 3:
        raise EnvError(f"{name}.render returned {type(frame).__name__} {getattr(frame, 'shape', '')}; it must be np.uint8 [H, W, 3].")


def _at(tree: PyTree, *index: Any) -> PyTree:
    return jax.tree.map(lambda x: x[index], tree)


def _require_equal(got: PyTree, wanted: PyTree, message: str) -> None:
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        if is_key(a):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        if not np.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True):
            raise EnvError(message)
