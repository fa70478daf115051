"""What can be known of an environment without running it: shapes, dtypes and structure, by abstract evaluation."""

from typing import Any

import gymnasium
import jax
from gymnasium.spaces import flatdim
from jaxtyping import PyTree

from .env import AbstractEnv, Step
from .errors import EnvError, ShapeError
from .spaces import head_sizes, struct_of


def check_contract(env: AbstractEnv) -> tuple[gymnasium.Space, gymnasium.Space]:
    """Raise a clear error unless `reset`, `step` and `action_mask` return what their spaces promise; return the two spaces."""
    name = type(env).__name__
    if isinstance(env, type):
        raise TypeError(f"env is the class {env.__name__}; give an instance: {env.__name__}().")
    if not isinstance(env, AbstractEnv):
        hint = " For a Gymnasium environment use rl.GymVecEnv." if isinstance(env, gymnasium.Env) else ""
        hint = f" For a built-in one use rl.make({env!r})." if isinstance(env, str) else hint
        raise TypeError(f"env is a {name}; it must be an rl4jax AbstractEnv.{hint}")
    _check_leaves(env, name)
    observation_space, action_space = _spaces(env, name)

    key = jax.eval_shape(lambda: jax.random.key(0))
    state, obs = _trace(env.reset, f"{name}.reset", key)
    _same(obs, struct_of(observation_space), f"{name}.reset returned an observation", "observation_space promises")
    next_state, step = _trace(env.step, f"{name}.step", state, struct_of(action_space), key)
    if not isinstance(step, Step):
        raise EnvError(f"{name}.step returned (state, {type(step).__name__}); it must return (state, rl.Step(...)).")
    _same(next_state, state, f"{name}.step returned a state", "reset returned")
    _same(step.obs, obs, f"{name}.step returned an observation", "reset returned")
    _scalar(step.reward, "float32", f"{name}.step: Step.reward")
    _scalar(step.terminated, "bool", f"{name}.step: Step.terminated")
    _scalar(step.truncated, "bool", f"{name}.step: Step.truncated")

    mask = _trace(env.action_mask, f"{name}.action_mask", state)
    if mask is not None:
        if head_sizes(action_space) is None:
            raise EnvError(f"{name}.action_mask is not None, but {action_space} has no choices to mask. Return None.")
        wanted = jax.ShapeDtypeStruct((flatdim(action_space),), bool)
        _same(mask, wanted, f"{name}.action_mask returned", "a mask of its action_space must be")
    return observation_space, action_space


def _check_leaves(env: AbstractEnv, name: str) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(env):
        if not isinstance(leaf, bool | int | float | complex) and not hasattr(leaf, "dtype"):
            field = jax.tree_util.keystr(path)
            raise EnvError(
                f"{name}{field} = {leaf!r} is not a number or an array, so it cannot enter a compiled program. "
                f"Declare the field as eqx.field(static=True)."
            )


def _spaces(env: AbstractEnv, name: str) -> tuple[gymnasium.Space, gymnasium.Space]:
    try:
        return env.observation_space, env.action_space
    except jax.errors.TracerArrayConversionError as error:
        raise EnvError(
            f"A space of {name} depends on a field that is being traced. Build the VecEnv outside jit and vmap, or make "
            f"the space independent of that field."
        ) from error


def _trace(function: Any, name: str, *args: PyTree) -> Any:
    try:
        return jax.eval_shape(function, *args)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
        raise EnvError(
            f"{name} cannot be compiled: it uses the value of an array in Python. Use jnp.where instead of `if`, jnp instead "
            f"of np, and static fields for sizes. JAX says: {str(error).splitlines()[0]}"
        ) from error


def _same(got: PyTree, wanted: PyTree, what: str, rule: str) -> None:
    if _describe(got) != _describe(wanted):
        raise ShapeError(f"{what} {_describe(got)}, but {rule} {_describe(wanted)}. Make the two agree (dtypes included).")


def _scalar(got: Any, dtype: str, what: str) -> None:
    if got.shape != () or got.dtype != dtype:
        raise ShapeError(f"{what} is {_describe(got)}; it must be {dtype}[]. Use jnp.asarray(x, jnp.{dtype}) on a scalar.")


def _describe(tree: PyTree) -> str:
    """Structure, dtypes and shapes in one line: `{'image': uint8[8,8,3], 'speed': float32[2]}`."""
    names = jax.tree.map(lambda x: f"{x.dtype}[{','.join(map(str, x.shape))}]", tree)
    return str(names).replace("'", "") if isinstance(names, str) else str(names)
