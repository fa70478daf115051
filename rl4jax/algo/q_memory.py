"""The ring that DQN remembers transitions in."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rl4jax.collect.playing import AnyVecEnv, Playing, begin
from rl4jax.collect.replay import DiskReplay, HostPrioritizedReplay, HostReplay, PrioritizedReplay, Replay
from rl4jax.collect.transition import Transition
from rl4jax.core.contract import describe
from rl4jax.core.errors import ShapeError, require
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.spaces import struct_of

Config = Any  # dqn.Config


def make_replay(env: AnyVecEnv, playing: Playing, cfg: Config) -> Any:
    """An empty ring for the transitions of this environment: on the device, or in the memory of the host."""
    like, alpha = transition_like(env, playing), cfg.priority_alpha
    if isinstance(env, GymVecEnv):
        return HostPrioritizedReplay.empty(cfg.capacity, like, float(alpha)) if cfg.prioritized else HostReplay.empty(cfg.capacity, like)
    return PrioritizedReplay.empty(cfg.capacity, like, alpha) if cfg.prioritized else Replay.empty(cfg.capacity, like)


def replay_on_disk(folder: str | os.PathLike[str], model: Any, env: AnyVecEnv, cfg: Config) -> DiskReplay | HostPrioritizedReplay:
    """The same in files of a folder, for environments on the host: give it to `dqn.init`."""
    ring = DiskReplay(folder, cfg.capacity, transition_like(env, begin(model, env, key=jax.random.key(0))))
    return HostPrioritizedReplay.of(ring, float(cfg.priority_alpha)) if cfg.prioritized else ring


def check_replay(replay: Any, env: AnyVecEnv, playing: Playing, cfg: Config) -> Any:
    """The ring that `dqn.init` was given, if it takes the transitions of this environment and draws them as the config says."""
    host = isinstance(env, GymVecEnv)
    if cfg.prioritized:
        kinds = (HostPrioritizedReplay,) if host else (PrioritizedReplay,)
    else:
        kinds = (HostReplay, DiskReplay) if host else (Replay,)
    about = f"dqn.init: replay, for an environment {'on the host' if host else 'in-graph'} and prioritized={cfg.prioritized},"
    require(isinstance(replay, kinds), about, type(replay).__name__, " or ".join(f"a {kind.__name__}" for kind in kinds))
    none = replay.at(np.zeros(0, np.int64))  # reads nothing, and tells what items are
    held = describe(jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), none))
    wanted = describe(transition_like(env, playing))
    if held != wanted:
        fix = "Build it with like=dqn.transition_like(env, rl.collect.begin(model, env, key=key))."
        raise ShapeError(f"dqn.init: replay is not for the transitions of this environment. {fix} They are {wanted}, its items {held}.")
    return replay


def check_priorities(replay: Any, prioritized: bool) -> None:
    """Raise unless the memory draws as the config says: the loss corrects for it."""
    had = isinstance(replay, PrioritizedReplay | HostPrioritizedReplay)
    require(prioritized == had, "dqn.update: cfg.prioritized", prioritized, f"{had}, as for dqn.init", "Give all verbs the same Config.")


def transition_like(env: AnyVecEnv, playing: Playing) -> Transition:
    """Shapes and dtypes of one transition."""
    obs, mask = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), (playing.obs, env.action_mask(playing.env_state)))
    number = jax.ShapeDtypeStruct((), jnp.float32)
    return Transition(obs, struct_of(env.single_action_space), number, number, obs, mask)
