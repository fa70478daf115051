"""Between the spaces of a Gymnasium environment and the ones we show: zero-based, 32-bit, and free of shared memory.

We show `Discrete(n, start)` as `Discrete(n)`, MultiBinary actions as MultiDiscrete of twos, and 64-bit numbers as 32-bit ones,
so that no algorithm has to know of the difference.
"""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import PyTree

from .errors import EnvError
from .spaces import jax_dtype, struct_of

Convert = Callable[[PyTree], PyTree]
_UNSIGNED = {np.dtype(kind).itemsize: np.dtype(kind) for kind in (np.uint8, np.uint16, np.uint32, np.uint64)}


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


def obs_reader(space: gymnasium.Space) -> Convert:
    """What copies a batch of observations, as the shown space has it. The space is looked at once, here, and not at every step.

    A copy, because vector environments write the next observation into the same memory, and JAX on CPU may use NumPy's memory
    without copying it.
    """
    if isinstance(space, spaces.Dict):
        readers = {name: obs_reader(part) for name, part in space.items()}
        return lambda obs: {name: read(obs[name]) for name, read in readers.items()}
    if isinstance(space, spaces.Tuple):
        in_order = [obs_reader(part) for part in space]
        return lambda obs: tuple(read(part) for read, part in zip(in_order, obs, strict=True))
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return lambda obs: (np.asarray(obs) - space.start).astype(np.int32)
    dtype = jax_dtype(space.dtype)

    def read(obs: Any) -> np.ndarray:
        given = np.asarray(obs)
        shown = given.astype(dtype)  # always a copy
        if given.itemsize > shown.itemsize and given.dtype.kind in "iu" and (shown != given).any():
            raise EnvError(
                f"an observation of {space} holds {given[shown != given][0]}, which {dtype} cannot. Use smaller numbers or floats."
            )
        return shown

    return read


def batch_of(space: gymnasium.Space, elements: list) -> PyTree:
    """Elements of a space, arrays or lists or numbers, stacked along a new first axis."""
    if isinstance(space, spaces.Dict):
        return {name: batch_of(part, [x[name] for x in elements]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(batch_of(part, [x[i] for x in elements]) for i, part in enumerate(space))
    return np.stack([np.asarray(x) for x in elements])


def action_writer(space: Any, shown: Any, num_envs: int, name: str = "action") -> Convert:
    """What turns a batch of actions of the shown space into one that the environment's own space wants, checked."""
    if isinstance(space, spaces.Dict):
        writers = {k: action_writer(space[k], shown[k], num_envs, f"{name}[{k!r}]") for k in space}

        def write_dict(action: PyTree) -> dict[str, Any]:
            _require_parts(space, action, name)
            return {k: write(action[k]) for k, write in writers.items()}

        return write_dict
    if isinstance(space, spaces.Tuple):
        in_order = [action_writer(space[i], shown[i], num_envs, f"{name}[{i}]") for i in range(len(space))]

        def write_tuple(action: PyTree) -> tuple[Any, ...]:
            _require_parts(space, action, name)
            return tuple(write(part) for write, part in zip(in_order, action, strict=True))

        return write_tuple
    shape, kinds, own = (num_envs, *shown.shape), "f" if shown.dtype.kind == "f" else "iu", np.dtype(space.dtype)

    def checked(action: Any) -> np.ndarray:
        action = _as_array(action, shown, name)
        if action.dtype.kind not in kinds:
            raise EnvError(f"{name} has dtype {action.dtype}; {shown} needs {shown.dtype}. Use action.astype(np.{shown.dtype}).")
        if action.shape != shape:
            raise EnvError(
                f"{name} has shape {action.shape}; it must be {shape}: one action of {shown} for each of the {num_envs} environments."
            )
        return action

    def write_box(action: Any) -> np.ndarray:
        action = checked(action)
        inside = np.clip(action, shown.low, shown.high)
        # Forgive what 64-bit bounds lose as 32-bit ones.
        _require(np.isfinite(action), action, shown, name, "It is not finite: look at what the policy computes.")
        _require((np.abs(action - inside) <= 1e-6 * np.maximum(1.0, np.abs(inside))), action, shown, name, "Clip it: rl.clip_action.")
        return np.clip(inside.astype(own), space.low, space.high)

    if isinstance(space, spaces.Box):
        return write_box
    own_shape = (num_envs, *space.shape)
    size = shown.n if isinstance(shown, spaces.Discrete) else shown.nvec
    start = 0 if isinstance(space, spaces.MultiBinary) else space.start
    counts_from_elsewhere = bool(np.any(start))
    # Of a single choice Python's integers, with which NumPy compares faster than with its own.
    size, start = (x if isinstance(x, np.ndarray) else int(x) for x in (size, start))

    def write_choice(action: Any) -> np.ndarray:
        action = checked(action)
        unsigned = action.view(_UNSIGNED[action.itemsize])  # what is negative is then huge: one comparison instead of two
        _require(unsigned < size, action, shown, name, "Count actions from 0.")
        written = action.astype(own).reshape(own_shape)
        return (written + start).astype(own) if counts_from_elsewhere else written

    return write_choice


def _require(good: np.ndarray, action: np.ndarray, space: gymnasium.Space, name: str, fix: str) -> None:
    if np.count_nonzero(good) < good.size:  # many times faster than all()
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
