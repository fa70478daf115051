"""The loop that every algorithm shares: collect, update, and again."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from rl4jax.collect.playing import AnyVecEnv, check_faults
from rl4jax.core.errors import is_count, require
from rl4jax.core.gym_vec_env import GymVecEnv

Metrics = dict[str, Float[Any, "..."]]  # scalars; from `train` one per update
Verb = Callable[..., tuple[Any, Any]]


def identity(tree: PyTree) -> PyTree:
    """What `reduce` does on one machine."""
    return tree


def run(collect: Verb, update: Verb, state: Any, env: AnyVecEnv, cfg: Any, num_updates: int, opt: Any) -> tuple[Any, Metrics]:
    """`num_updates` turns, as one compiled program for in-graph environments; metrics have an axis in front."""
    require(is_count(num_updates), "train: num_updates", num_updates, "a positive integer")
    if isinstance(env, GymVecEnv):
        state, metrics = _run_on_host(collect, update, state, env, cfg, num_updates, opt)
    else:
        state, metrics = _run_in_graph(collect, update, state, env, cfg, num_updates, opt)
    check_faults(state.playing.faults, env)
    return state, metrics


@functools.partial(jax.jit, static_argnames=("collect", "update", "num_updates", "opt"))
def _run_in_graph(collect, update, state, env, cfg, num_updates, opt):
    def turn(state, _):
        state, rollout = collect(state, env, cfg)
        state, metrics = update(state, rollout, cfg, opt)
        return state, metrics | seen(rollout.ended, rollout.episode_return, rollout.episode_length, jnp)

    return jax.lax.scan(turn, state, length=num_updates)


def _run_on_host(collect, update, state, env, cfg, num_updates, opt):
    """One turn after another. NumPy counts the episodes and stacks the metrics: JAX would take longer for that than for a turn."""
    rows = []
    for _ in range(num_updates):
        state, rollout = collect(state, env, cfg)
        state, metrics = update(state, rollout, cfg, opt)
        rows.append(metrics | _seen_on_host(rollout))
    names = list(rows[0])  # a compiled update sorts its own, and not every row need come from one
    table = np.array([[row[name] for name in names] for row in rows], np.float32)
    return state, {name: jnp.asarray(column) for name, column in zip(names, table.T, strict=True)}


def _seen_on_host(rollout):
    lengths = np.asarray(rollout.episode_length)  # 0 where none ended
    if np.count_nonzero(lengths) == 0:
        return NONE_ENDED
    return seen(np.asarray(rollout.ended), np.asarray(rollout.episode_return), lengths, np)


NONE_ENDED = {"rollout/episodes": np.float32(0), "rollout/avg_return": np.float32("nan"), "rollout/avg_length": np.float32("nan")}


def seen(ended: Any, returns: Any, lengths: Any, xp: Any) -> dict[str, Any]:
    """How many episodes ended in a rollout, and their mean return and length, NaN if none did. `xp` is `jax.numpy` or `numpy`."""
    count = ended.sum()
    metrics = {
        "rollout/episodes": count,
        "rollout/avg_return": xp.where(ended, returns, 0.0).sum() / count,
        "rollout/avg_length": xp.where(ended, lengths, 0).sum() / count,
    }
    return {name: xp.asarray(x, xp.float32) for name, x in metrics.items()}
