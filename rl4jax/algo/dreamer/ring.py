"""The ring of streams that Dreamer remembers."""

import os
from typing import Any

import jax
import jax.numpy as jnp

from rl4jax.collect.playing import AnyVecEnv
from rl4jax.collect.replay.host_sequences import HostSequenceReplay
from rl4jax.collect.replay.sequences import SequenceReplay
from rl4jax.core.contract import describe
from rl4jax.core.errors import ShapeError, require
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.spaces import struct_of
from rl4jax.nn.trunk import HasSpaces

from .agent import Agent
from .config import Config
from .stream import Moment, stored

REWRITABLE = ("latent",)


def make_replay(model: Agent, env: AnyVecEnv, cfg: Config) -> SequenceReplay | HostSequenceReplay:
    """An empty ring for `cfg.capacity` steps: on the device, or in the memory of the host."""
    capacity, like = cfg.capacity // env.num_envs, moment_like(model, env)
    check_room("dreamer.Config.capacity", cfg.capacity, env.num_envs, cfg)
    if isinstance(env, GymVecEnv):
        return HostSequenceReplay.empty(capacity, env.num_envs, like, REWRITABLE)
    return SequenceReplay.empty(capacity, env.num_envs, like)


def replay_on_disk(folder: str | os.PathLike[str], model: Agent, env: AnyVecEnv, cfg: Config) -> HostSequenceReplay:
    """The same in files of a folder, for environments on the host: give it to `dreamer.init`."""
    return HostSequenceReplay.on_disk(folder, cfg.capacity // env.num_envs, env.num_envs, moment_like(model, env), REWRITABLE)


def check_replay(replay: Any, model: Agent, env: AnyVecEnv, cfg: Config) -> Any:
    """The ring that `dreamer.init` was given, if it takes the steps of this environment."""
    host = isinstance(env, GymVecEnv)
    about = f"dreamer.init: replay, for an environment {'on the host' if host else 'in-graph'},"
    kind = HostSequenceReplay if host else SequenceReplay
    require(isinstance(replay, kind), about, type(replay).__name__, f"a {kind.__name__}")
    held, wanted = describe(replay.like), describe(moment_like(model, env))
    rewritable = replay.rewritable if host else REWRITABLE
    if (held, replay.num_streams, rewritable) != (wanted, env.num_envs, REWRITABLE):
        fix = f"Build it with like=dreamer.moment_like(model, env), num_streams={env.num_envs} and, on the host, rewritable={REWRITABLE}."
        raise ShapeError(
            f"dreamer.init: replay is not for the steps of this agent and environment. {fix} They are {wanted} in {env.num_envs} streams, "
            f"its items {held} in {replay.num_streams}, of which {rewritable} may be rewritten."
        )
    check_settings(replay, cfg, "dreamer.init")
    return replay


def check_settings(replay: SequenceReplay | HostSequenceReplay, cfg: Config, what: str) -> None:
    """Raise unless a ring is large enough for these settings."""
    check_room(f"{what}: replay.capacity * num_envs", replay.capacity * replay.num_streams, replay.num_streams, cfg)


def check_room(name: str, steps: int, num_envs: int, cfg: Config) -> None:
    """Raise unless so many steps, in all environments together, are enough for a rollout, for a stretch, and to begin to learn."""
    each, least = steps // num_envs, (cfg.length + 1) * num_envs
    require(each > cfg.length, name, steps, f"at least (length + 1) * num_envs = {least}")
    rollout = 2 * cfg.num_steps * num_envs  # at most: an episode that ends with a step has its last observation as one more
    require(2 * cfg.num_steps <= each, name, steps, f"at least 2 * num_steps * num_envs = {rollout}")
    held = each * num_envs
    require(cfg.learning_starts <= held, "dreamer.Config.learning_starts", cfg.learning_starts, f"at most {held}, all that is remembered")


def moment_like(model: Agent, env: HasSpaces) -> Moment:
    """Shapes and dtypes of one step of a stream."""
    latent, vector = jax.eval_shape(model.initial_carry)
    number, flag = (jax.eval_shape(lambda d=d: jnp.zeros((), d)) for d in (jnp.float32, jnp.bool_))
    return Moment(struct_of(env.single_observation_space), vector, number, flag, flag, flag, jax.eval_shape(stored, latent))
