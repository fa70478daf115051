"""What an expert did, step by step: the data of imitation."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree

from rl4jax.collect.rollout import Rollout
from rl4jax.core.contract import describe
from rl4jax.core.errors import ShapeError, require
from rl4jax.core.number import is_concrete

from .epochs import concatenate, count


class Demonstrations(NamedTuple):
    """What an expert saw and did in N steps, in any order: arrays `[N, ...]`. `from_arrays` makes them, checked."""

    obs: PyTree
    action: PyTree
    mask: Bool[Array | np.ndarray, "N A"] | None = None  # allowed actions


def from_arrays(obs: PyTree, action: PyTree, mask: Bool[Array | np.ndarray, "N A"] | None = None) -> Demonstrations:
    """Demonstrations from arrays `[N, ...]`, or dicts and tuples of such, as JAX has them: choices int32, other numbers float32."""
    for name, tree in (("obs", obs), ("action", action)):
        require(len(jax.tree.leaves(tree)) > 0, f"bc.from_arrays: {name}", tree, "an array, or a dict or tuple of arrays")
    obs, action = (jax.tree.map(np.asarray, tree) for tree in (obs, action))
    for path, x in jax.tree_util.tree_leaves_with_path(obs):
        where, narrow = f"bc.from_arrays: obs{jax.tree_util.keystr(path)}", np.int32 if x.dtype.kind == "i" else np.uint32
        if x.dtype.kind not in "biuf":
            raise ShapeError(f"{where} is {x.dtype}{list(x.shape)}; it must hold numbers.")
        if x.dtype.kind in "iu" and x.itemsize > 4 and (x.astype(narrow) != x).any():
            raise ShapeError(f"{where} holds {x.min()} to {x.max()}, which {np.dtype(narrow)} cannot. Use smaller numbers or floats.")
    count("bc.from_arrays: (obs, action, mask)", (obs, action, mask))
    for path, x in jax.tree_util.tree_leaves_with_path(action):
        where = f"bc.from_arrays: action{jax.tree_util.keystr(path)}"
        if x.dtype.kind not in "iuf":
            raise ShapeError(f"{where} is {describe(x)}; it must hold integers, for choices, or floats.")
        if x.dtype.kind in "iu" and ((x < 0).any() or (x > np.iinfo(np.int32).max).any()):
            raise ShapeError(f"{where} holds {x.min()} to {x.max()}; choices are counted from 0, in 32 bits.")
    with np.errstate(over="ignore"):  # found, and named, below
        obs, action = jax.tree.map(lambda x: x.astype(np.float32) if x.dtype == np.float64 else x, (obs, action))
    _check_finite("bc.from_arrays: obs", obs)
    _check_finite("bc.from_arrays: action", action)
    if mask is not None:
        mask = np.asarray(mask)
        if mask.ndim != 2 or mask.dtype != bool:
            raise ShapeError(f"bc.from_arrays: mask is {describe(mask)}; it must be bool [N, A], true where allowed, flat over all heads.")
    action = jax.tree.map(lambda x: x.astype(np.int32) if x.dtype.kind in "iu" else x, action)
    return jax.tree.map(jnp.asarray, Demonstrations(obs, action, mask))


def _check_finite(name: str, tree: PyTree) -> None:
    for path, x in jax.tree_util.tree_leaves_with_path(tree):
        good = np.isfinite(x) if x.dtype.kind == "f" else np.ones((), bool)
        if not good.all():
            raise ShapeError(f"{name}{jax.tree_util.keystr(path)}[{np.argwhere(~good)[0][0]}] is not finite. Leave such steps out.")


def from_rollouts(rollouts: Rollout | Sequence[Rollout]) -> Demonstrations:
    """The steps of one or several rollouts as demonstrations, without the slots in which nothing happened."""
    several = [rollouts] if isinstance(rollouts, Rollout) else list(rollouts)
    return from_arrays(*concatenate("bc.from_rollouts: rollouts", [_steps(rollout) for rollout in several]))


def _steps(rollout: Any) -> Demonstrations:
    if not isinstance(rollout, Rollout):
        raise TypeError(f"bc.from_rollouts: rollouts holds a {type(rollout).__name__}; it must be an rl.Rollout, or a list of them.")
    if not is_concrete(rollout.valid):
        raise TypeError(
            "bc.from_rollouts cannot be compiled: how many steps are valid is not known before. Call it outside of jit and vmap."
        )
    valid = np.asarray(rollout.valid)
    return jax.tree.map(lambda x: np.asarray(x)[valid], Demonstrations(rollout.obs, rollout.action, rollout.mask))
