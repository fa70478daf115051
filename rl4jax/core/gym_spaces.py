"""Between the spaces of a Gymnasium environment and the ones we show: zero-based, 32-bit, and free of shared memory.

We show `Discrete(n, start)` as `Discrete(n)`, MultiBinary actions as MultiDiscrete of twos, and 64-bit numbers as 32-bit ones,
so that no algorithm has to know of the difference.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import PyTree

from .errors import EnvError
from .spaces import jax_dtype, struct_of


def shown_obs_space(space: gymnasium.Space) -> gymnasium.Space:
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: shown_obs_space(part) for name, part in space.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple(tuple(shown_obs_space(part) for part in space))
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec)
    if isinstance(space, spaces.Box):
        dtype = jax_dtype(space.dtype)
        low, high = space.low, space.high
        if dtype.kind in "iu":  # bounds of 64-bit integers need not fit
            low, high = (np.clip(bound, np.iinfo(dtype).min, np.iinfo(dtype).max) for bound in (low, high))
        return spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype.type)
    struct_of(space)  # raises for a space nobody knows
    return space


def shown_action_space(space: gymnasium.Space) -> gymnasium.Space:
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: shown_action_space(part) for name, part in space.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple(tuple(shown_action_space(part) for part in space))
    if isinstance(space, spaces.MultiBinary):
        return spaces.MultiDiscrete([2] * int(np.prod(space.shape)))
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec.ravel())
    return shown_obs_space(space)


def shown_obs(space: gymnasium.Space, obs: PyTree) -> PyTree:
    """A copy of a batch of observations, as the shown space has it.

    A copy, because vector environments write the next observation into the same memory, and JAX on CPU may use NumPy's memory
    without copying it.
    """
    if isinstance(space, spaces.Dict):
        return {name: shown_obs(part, obs[name]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(shown_obs(part, part_obs) for part, part_obs in zip(space, obs, strict=True))
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return (np.asarray(obs) - space.start).astype(np.int32)
    given = np.asarray(obs)
    shown = given.astype(jax_dtype(space.dtype))  # always a copy
    if given.dtype.kind in "iu" and given.itemsize > shown.itemsize and (shown != given).any():
        raise EnvError(
            f"an observation of {space} holds {given[shown != given][0]}, which {shown.dtype} cannot. Use smaller numbers or floats."
        )
    return shown


def batch_of(space: gymnasium.Space, elements: list) -> PyTree:
    """Elements of a space, arrays or lists or numbers, stacked along a new first axis."""
    if isinstance(space, spaces.Dict):
        return {name: batch_of(part, [x[name] for x in elements]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(batch_of(part, [x[i] for x in elements]) for i, part in enumerate(space))
    return np.stack([np.asarray(x) for x in elements])


def own_action(space: Any, shown: Any, action: PyTree, num_envs: int, name: str = "action") -> PyTree:
    """A batch of actions of the shown space as the environment's own space wants it, checked."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        _require_parts(space, action, name)
    if isinstance(space, spaces.Dict):
        return {k: own_action(space[k], shown[k], action[k], num_envs, f"{name}[{k!r}]") for k in space}
    if isinstance(space, spaces.Tuple):
        return tuple(own_action(space[i], shown[i], action[i], num_envs, f"{name}[{i}]") for i in range(len(space)))
    action = _as_array(action, shown, name)
    if (action.dtype.kind == "f") != (shown.dtype.kind == "f") or action.dtype.kind not in "fiu":
        raise EnvError(f"{name} has dtype {action.dtype}; {shown} needs {shown.dtype}. Use action.astype(np.{shown.dtype}).")
    if action.shape != (num_envs, *shown.shape):
        raise EnvError(
            f"{name} has shape {action.shape}; it must be {(num_envs, *shown.shape)}: one action of {shown} for each of the "
            f"{num_envs} environments."
        )
    if isinstance(space, spaces.Box):
        inside = np.clip(action, shown.low, shown.high)
        # Forgive what 64-bit bounds lose as 32-bit ones.
        _require(np.isfinite(action), action, shown, name, "It is not finite: look at what the policy computes.")
        _require((np.abs(action - inside) <= 1e-6 * np.maximum(1.0, np.abs(inside))), action, shown, name, "Clip it: rl.clip_action.")
        return np.clip(inside.astype(space.dtype), space.low, space.high)
    size = shown.n if isinstance(shown, spaces.Discrete) else shown.nvec
    _require((action >= 0) & (action < size), action, shown, name, "Count actions from 0.")
    action = action.reshape(num_envs, *space.shape)
    return (action if isinstance(space, spaces.MultiBinary) else action + space.start).astype(space.dtype)


def _require(good: np.ndarray, action: np.ndarray, space: gymnasium.Space, name: str, fix: str) -> None:
    if not good.all():
        i = int(np.argwhere(~good)[0][0])
        raise EnvError(f"{name}[{i}] = {action[i]} is not in {space}. {fix}")


def _require_parts(space: Any, action: PyTree, name: str) -> None:
    """Raise unless the action is a dict or tuple with just the parts of its space."""
    if isinstance(space, spaces.Dict) and not (isinstance(action, dict) and set(action) == set(space)):
        got = f"a dict of {sorted(action)}" if isinstance(action, dict) else f"a {type(action).__name__}"
        raise EnvError(f"{name} is {got}; it must be a dict of {sorted(space)}, a batch for each.")
    if isinstance(space, spaces.Tuple) and not (isinstance(action, tuple | list) and len(action) == len(space)):
        got = f"{type(action).__name__} of {len(action)}" if isinstance(action, tuple | list) else f"a {type(action).__name__}"
        raise EnvError(f"{name} is {got}; it must be a tuple of {len(space)}, a batch for each part.")


def _as_array(action: Any, space: gymnasium.Space, name: str) -> np.ndarray:
    try:
        array = np.asarray(action)
    except ValueError as error:
        raise EnvError(f"{name} = {action!r} is not an array: {error}") from error
    if array.dtype.kind not in "biufc":
        raise EnvError(f"{name} = {action!r} is not an array of numbers. Give one action of {space} per environment.")
    return array
