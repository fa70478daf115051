"""What can be known of an environment without running it: shapes, dtypes and structure, by abstract evaluation."""

import dataclasses
import inspect
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.spaces import flatdim
from jaxtyping import PyTree

from .env import AbstractEnv, Step
from .errors import EnvError, ShapeError
from .spaces import mask_heads, struct_of


def check_contract(env: AbstractEnv) -> tuple[gymnasium.Space, gymnasium.Space]:
    """Raise a clear error unless `reset`, `step` and `action_mask` return what their spaces promise; return the two spaces."""
    check_is_env(env)
    name = type(env).__name__
    _check_leaves(env, name)
    observation_space, action_space = _space(env, name, "observation_space"), _space(env, name, "action_space")
    if not _counts_from_zero(action_space):
        raise EnvError(f"{name}.action_space is {action_space}; in-graph environments count their actions from 0. Leave start away.")

    key = jax.eval_shape(lambda: jax.random.key(0))
    state, obs = _trace_pair(env, "reset", (key,), "(key)", "(state, obs)")
    _same(obs, struct_of(observation_space), f"{name}.reset returned (state, obs) with an obs of", "observation_space promises")
    args = (state, struct_of(action_space), key)
    next_state, step = _trace_pair(env, "step", args, "(state, action, key)", "(state, rl.Step(obs, reward, terminated, truncated))")
    if not isinstance(step, Step):
        raise EnvError(f"{name}.step returned (state, {type(step).__name__}); it must return (state, rl.Step(...)).")
    _same(next_state, state, f"{name}.step returned a state of", "reset returned")
    _same(step.obs, obs, f"{name}.step returned an observation of", "reset returned")
    _scalar(step.reward, "float32", f"{name}.step: Step.reward")
    _scalar(step.terminated, "bool", f"{name}.step: Step.terminated")
    _scalar(step.truncated, "bool", f"{name}.step: Step.truncated")

    carried = _trace(env, "carry_over", (state, state), "(last, start)")
    _same(carried, state, f"{name}.carry_over returned a state of", "reset returned")
    mask = _trace(env, "action_mask", (state,), "(state)")
    if mask is not None:
        if not mask_heads(action_space):
            raise EnvError(f"{name}.action_mask is not None, but {action_space} has no choices to mask. Return None.")
        wanted = jax.ShapeDtypeStruct((flatdim(action_space),), bool)
        _same(mask, wanted, f"{name}.action_mask returned", "a mask of its action_space must be")
    return observation_space, action_space


def _counts_from_zero(space: Any) -> bool:
    parts = space.values() if isinstance(space, spaces.Dict) else space if isinstance(space, spaces.Tuple) else ()
    return not np.any(getattr(space, "start", 0)) and all(map(_counts_from_zero, parts))


def check_is_env(env: object) -> None:
    """Raise unless env is an `AbstractEnv`, with the way to one from what is commonly given instead."""
    if isinstance(env, type):
        raise TypeError(f"env is the class {env.__name__}; give an instance: {env.__name__}().")
    if isinstance(env, AbstractEnv):
        return
    hint = ""
    if isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        hint = " For a Gymnasium environment use rl.GymVecEnv."
    elif isinstance(env, str):
        hint = f" For a built-in one use rl.make({env!r})."
    elif type(env).__name__ == "VecEnv":
        hint = " Wrap the environment first, and give that to VecEnv."
    raise TypeError(f"env is a {type(env).__name__}; it must be an rl4jax AbstractEnv.{hint}")


def check_action(action: PyTree, space: gymnasium.Space, num_envs: int) -> None:
    """Raise unless a batch of actions has the shapes and the kind of numbers of its space. Costs nothing once compiled."""
    one = struct_of(space)
    wanted = jax.tree.map(lambda x: jax.ShapeDtypeStruct((num_envs, *x.shape), x.dtype), one)
    fits = jax.tree.structure(action) == jax.tree.structure(wanted) and all(
        jnp.shape(x) == w.shape and (jnp.result_type(x).kind == "f") == (w.dtype.kind == "f") and jnp.result_type(x).kind in "fiu"
        for x, w in zip(jax.tree.leaves(action), jax.tree.leaves(wanted), strict=True)
    )
    if not fits:
        raise ShapeError(
            f"VecEnv.step: action is {describe(action)}; it must be {describe(wanted)}: one action of {space} for each of the "
            f"{num_envs} environments, as an array."
        )


def is_key(x: Any) -> bool:
    """Whether x holds JAX keys, of the new kind."""
    return jnp.issubdtype(jnp.result_type(x), jax.dtypes.prng_key)


def check_key(key: object, name: str) -> None:
    """Raise unless key is one JAX key, of the new or the old kind."""
    single = isinstance(key, jax.Array) and (key.shape == () if is_key(key) else key.dtype == jnp.uint32 and key.ndim == 1)
    if not single:
        got = "None" if key is None else describe(key)
        raise ShapeError(f"{name}: key is {got}; it must be one JAX key. Use jax.random.key(0).")


def _check_leaves(env: AbstractEnv, name: str) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(env):
        if not isinstance(leaf, bool | int | float | complex | np.ndarray | np.generic | jax.Array):
            field = jax.tree_util.keystr(path)
            hint = "Make it a property" if isinstance(leaf, gymnasium.Space) else "Declare the field as eqx.field(static=True)"
            raise EnvError(f"{name}{field} = {leaf!r} is not a number or an array, so it cannot enter a compiled program. {hint}.")


def _space(env: AbstractEnv, name: str, which: str) -> gymnasium.Space:
    try:
        space = getattr(env, which)
    except jax.errors.TracerArrayConversionError as error:
        raise EnvError(
            f"{name}.{which} depends on a field that is being traced. Build the VecEnv outside jit and vmap, or make the space "
            f"independent of that field."
        ) from error
    if not isinstance(space, gymnasium.Space):
        hint = "Put @property above it." if callable(space) else "Use Discrete, MultiDiscrete, Box, Dict or Tuple of gymnasium.spaces."
        raise EnvError(f"{name}.{which} is {type(space).__name__}; it must be a gymnasium.Space. {hint}")
    return space


def _trace_pair(env: AbstractEnv, verb: str, args: tuple, takes: str, returns: str) -> tuple[Any, Any]:
    result = _trace(env, verb, args, takes)
    if not isinstance(result, tuple) or len(result) != 2:
        got = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
        raise EnvError(f"{type(env).__name__}.{verb} returned {got}; it must return {returns}.")
    return result


def _trace(env: AbstractEnv, verb: str, args: tuple, takes: str) -> Any:
    """The shapes of what a method returns, with the environment an argument of the compiled program as it will be later."""
    name = f"{type(env).__name__}.{verb}"
    try:
        inspect.signature(getattr(env, verb)).bind(*args)
    except TypeError as error:
        raise EnvError(f"{name} must take {takes}, but {error}.") from error
    try:
        return jax.eval_shape(lambda env, *args: getattr(env, verb)(*args), env, *args)
    except dataclasses.FrozenInstanceError as error:
        raise EnvError(
            f"{name} changes the environment itself ({error}). Keep what changes in the state, and return the new one."
        ) from error
    except TypeError as error:  # JAX's own are TypeErrors too
        raise EnvError(
            f"{name} cannot be compiled. Use jnp.where instead of `if`, jnp instead of np, and eqx.field(static=True) for sizes. "
            f"The error was: {str(error).splitlines()[0]}"
        ) from error


def _same(got: PyTree, wanted: PyTree, what: str, rule: str) -> None:
    if describe(got) != describe(wanted):
        raise ShapeError(f"{what} {describe(got)}, but {rule} {describe(wanted)}. Make the two agree (dtypes included).")


def _scalar(got: Any, dtype: str, what: str) -> None:
    if got.shape != () or got.dtype != dtype:
        raise ShapeError(f"{what} is {describe(got)}; it must be {dtype}[]. Use jnp.asarray(x, jnp.{dtype}) on a scalar.")


def describe(tree: PyTree) -> str:
    """Structure, dtypes and shapes in one line: `{'image': uint8[8,8,3], 'speed': float32[2]}`."""
    names = jax.tree.map(lambda x: f"{jnp.result_type(x)}[{','.join(map(str, jnp.shape(x)))}]", tree)
    return str(names).replace("'", "") if isinstance(names, str) else str(names)
