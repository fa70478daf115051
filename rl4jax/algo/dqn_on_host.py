"""DQN's `collect` and `update` for environments on the host. As little as possible goes in and out of compiled programs: each array
costs time, and there may be one gradient step after each step of the environment."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from rl4jax.collect.play import as_rollout, draw_noise, episodes_on_host, play_with_noise
from rl4jax.collect.rollout import Rollout
from rl4jax.collect.transition import fold
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.on_device import on_device, once
from rl4jax.core.random_blocks import drawn_ahead
from rl4jax.nn.distributions.epsilon_greedy import EpsilonGreedy
from rl4jax.nn.flat_model import FlatModel
from rl4jax.nn.packed import Packed, pack
from rl4jax.nn.q_policy import pack_policy

from .loop import Metrics
from .optimizer import check_optimizer
from .q_learning import METRICS, bits_of_update, epsilon_at, learn, make_optimizer, no_sums, play_key, summarize

State = Any  # dqn.State


class Settings(NamedTuple):
    """Those of a `dqn.Config` that are asked for at every turn: each look at a field of an `eqx.Module` runs Python code."""

    num_steps: int
    n_step: int
    gamma: np.float32
    learning_starts: int
    prioritized: bool
    sampled: tuple[int, int]  # [G, N]
    cfg: Packed  # whole, for compiled programs: its numbers as one vector


def settings_of(cfg: Any) -> Settings:
    sampled = (cfg.gradient_steps, cfg.batch_size)
    packed = pack(FlatModel(pack(on_device(cfg))))
    return Settings(cfg.num_steps, cfg.n_step, np.float32(cfg.gamma), cfg.learning_starts, cfg.prioritized, sampled, packed)


def collect_on_host(state: State, env: GymVecEnv, cfg: Any) -> tuple[State, Rollout]:
    """Like `dqn.collect`, in NumPy except for the network."""
    before, num_rollouts, num_steps = state.playing, int(state.num_rollouts), once(settings_of, cfg).num_steps
    shape = (num_steps, env.num_envs, int(env.single_action_space.n))  # pyright: ignore[reportAttributeAccessIssue]
    noise = drawn_ahead(noise_of_rollout, state.key, num_rollouts, shape)
    playing, moments = play_with_noise(pack_policy(state.packed, state.epsilon), env, before, num_steps, noise)
    ended, so_far = episodes_on_host(moments, before.episode_return, before.episode_length)
    playing = playing._replace(episode_return=so_far[0], episode_length=so_far[1])
    return state._replace(playing=playing, num_rollouts=np.int32(num_rollouts + 1)), as_rollout(moments, before.carry, *ended)


def noise_of_rollout(key: PRNGKeyArray, shape: tuple[int, int, int]) -> Float[Array, "T B A"]:
    num_steps, num_envs, num_actions = shape
    return draw_noise(EpsilonGreedy(jnp.zeros(num_actions), jnp.zeros(())).noise, num_steps, num_envs, play_key(key))


def update_on_host(state: State, rollout: Rollout, cfg: Any, opt: Any, reduce: Any) -> tuple[State, Metrics]:
    """Like `dqn.update`, with a ring in the memory of the host, or on its disk."""
    settings = once(settings_of, cfg)
    if state.num_updates == 0:  # before anything is remembered, which cannot be undone
        check_optimizer("dqn", opt or make_optimizer(cfg, 0), state.packed.params, state.opt_state, given=opt is not None)
    window, transitions, valid = fold(state.window, rollout, settings.n_step, settings.gamma, np)
    replay = state.replay.add(transitions, valid)
    num_steps, num_updates = int(state.num_steps) + np.count_nonzero(rollout.valid), int(state.num_updates)
    learner, epsilon, batches, said = state.learner, state.epsilon, (), []
    given = (state.packed.with_params({}), epsilon, np.array([num_steps, num_updates], np.int32), settings.cfg)
    if num_steps >= settings.learning_starts and replay.size > 0:
        bits = drawn_ahead(bits_of_update, state.key, num_updates, settings.sampled)
        batches = bits[:, None] if settings.prioritized else bits[None]  # one by one if each changes the priorities of the next
    for rows in batches:
        sample = replay.sample_with(rows.reshape(-1))
        weighed = (sample.probability, replay.size) if settings.prioritized else (None, None)
        learner, error, epsilon, metrics = _learn_on_host(learner, *given, sample.items, *weighed, opt, reduce)
        said.append(metrics)
        if settings.prioritized:
            replay = replay.reprioritize(sample.slots, np.asarray(error))
    if not said:
        epsilon, metrics = _learn_nothing(*given[1:])
        said.append(metrics)
    moved = {"replay": replay, "window": window, "epsilon": epsilon, "num_steps": np.int32(num_steps)}
    return state.learned(learner, **moved, num_updates=np.int32(num_updates + 1)), combine(said)


@functools.partial(jax.jit, static_argnames=("opt", "reduce"))
def _learn_on_host(learner, packed, epsilon, counts, cfg, items, probability, size, opt, reduce):
    cfg = cfg.model.model
    check_optimizer("dqn", opt or make_optimizer(cfg, 0), learner.params, learner.opt_state, given=opt is not None)
    num_steps, num_updates = counts

    def step(learner, drawn):
        batch, chance = drawn
        learner, error, metrics = learn(learner, packed, batch, chance, size, cfg, num_updates, opt, reduce)
        return learner, (error if cfg.prioritized else None, metrics)

    drawn = jax.tree.map(lambda x: x.reshape(-1, cfg.batch_size, *x.shape[1:]), (items, probability))
    learner, (error, metrics) = jax.lax.scan(step, learner, drawn)
    sums, count = jax.tree.map(lambda x: x.sum(0), metrics), jnp.int32(len(metrics["train/loss"]))
    said = as_vector(summarize(sums, count, epsilon, num_updates, cfg))
    return learner, None if error is None else error.reshape(-1), epsilon_at(num_steps, cfg), said


@jax.jit
def _learn_nothing(epsilon, counts, cfg):
    cfg = cfg.model.model
    return epsilon_at(counts[0], cfg), as_vector(summarize(no_sums(), jnp.int32(0), epsilon, counts[1], cfg))


def as_vector(metrics: Metrics) -> Float[Array, " M"]:
    """All in one array: each that leaves a compiled program costs time."""
    return jnp.stack([metrics[name] for name in METRICS])


COUNTED = ("train/skipped", "train/gradient_steps")


def combine(vectors: list[Float[Array, " M"]]) -> Metrics:
    """The metrics of the gradient steps of one update, on the host: means, and of what is counted the sum."""
    rows = [np.asarray(vector) for vector in vectors]
    if len(rows) == 1:
        return dict(zip(METRICS, rows[0], strict=True))
    table = dict(zip(METRICS, np.stack(rows, 1), strict=True))
    return {name: row.sum() if name in COUNTED else row.mean() for name, row in table.items()}
