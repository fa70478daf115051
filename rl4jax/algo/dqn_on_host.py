"""DQN's `collect` and `update` for environments on the host. As little as possible goes in and out of compiled programs: each array
costs time, and there may be one gradient step after each step of the environment."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, PRNGKeyArray, Shaped

from rl4jax.collect.play import as_rollout, choose, choose_on_host, draw_noise, episodes_on_host, play_by
from rl4jax.collect.playing import Playing
from rl4jax.collect.rollout import Rollout
from rl4jax.collect.transition import fold
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.host_arrays import read_only
from rl4jax.core.on_device import on_device, once
from rl4jax.core.random_blocks import drawn_ahead
from rl4jax.nn.distributions.epsilon_greedy import EpsilonGreedy
from rl4jax.nn.flat_model import FlatModel
from rl4jax.nn.packed import Packed, pack
from rl4jax.nn.q_policy import QPolicy, pack_policy

from .loop import Metrics
from .optimizer import check_optimizer
from .q_learning import METRICS, MOST_STEPS, Learner, bits_of_update, epsilon_at, learn, make_optimizer, no_sums, play_key, summarize
from .q_memory import check_priorities

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

    def choose_at(t, obs, is_first, carry, mask):
        if t == 0 and (action := foreseen(state, num_steps)) is not None:
            return action, None, None
        noise = drawn_ahead(noise_of_rollout, state.key, num_rollouts, (num_steps, env.num_envs))
        return choose_on_host(pack_policy(state.packed, state.epsilon), obs, is_first, carry, mask, noise[t])

    now, moments = play_by(choose_at, env, before, num_steps)
    ended, so_far = episodes_on_host(moments, before.episode_return, before.episode_length)
    playing = Playing(*now, *so_far, before.faults)
    return state._replace(playing=playing, num_rollouts=np.int32(num_rollouts + 1)), as_rollout(moments, before.carry, *ended)


def noise_of_rollout(key: PRNGKeyArray, shape: tuple[int, int]) -> Float[Array, "T B 2"]:
    return draw_noise(EpsilonGreedy(jnp.zeros(1), jnp.zeros(())).noise, *shape, play_key(key))


class Foresight(NamedTuple):
    """What the network does first in the next rollout: the call that learns answers that too, as each call costs time."""

    num_steps: int  # of that rollout
    given: tuple[Any, ...]
    action: Int32[np.ndarray, " B"]


def foresights(packed: Packed) -> list[Foresight]:
    """None yet. For `once`: they belong to the weights that were asked, and go with them."""
    return []


def seen_by_first_action(state: State) -> tuple[Any, ...]:
    """What, with the weights, decides the first action of the next rollout."""
    return state.playing.obs, state.playing.env_state.mask, state.epsilon, state.num_rollouts, state.key


def foreseen(state: State, num_steps: int) -> Int32[np.ndarray, " B"] | None:
    """The first action of the next rollout, if `update` has asked for it and nothing that decides it was replaced since."""
    now = seen_by_first_action(state)
    for foresight in once(foresights, state.packed):
        if foresight.num_steps == num_steps and all(x is y for x, y in zip(foresight.given, now, strict=True)):
            return foresight.action
    return None


def known_optimizers(key: PRNGKeyArray) -> list[Any]:
    """None yet. For `once`: those that fit the states of a run, which keeps its key."""
    return []


def update_on_host(state: State, rollout: Rollout, cfg: Any, opt: Any, reduce: Any) -> tuple[State, Metrics]:
    """Like `dqn.update`, with a ring in the memory of the host, or on its disk."""
    settings, num_updates = once(settings_of, cfg), int(state.num_updates)
    check_priorities(state.replay, settings.prioritized)
    optimizers = once(known_optimizers, state.key)
    if opt not in optimizers:  # before anything is remembered, which cannot be undone
        check_optimizer("dqn", opt or make_optimizer(cfg, 0), state.packed.params, state.opt_state, given=opt is not None)
        optimizers.append(opt)
    window, transitions, valid = fold(state.window, rollout, settings.n_step, settings.gamma, np)
    replay = state.replay.add(transitions, valid)
    num_steps = min(int(state.num_steps) + np.count_nonzero(rollout.valid), MOST_STEPS)
    num_gradient_steps, batches, answers = int(state.num_gradient_steps), (), []
    playing, seen_next = state.playing, None
    learned = state.learner[:3]  # without the counter
    if num_steps >= settings.learning_starts and replay.size > 0:
        bits = drawn_ahead(bits_of_update, state.key, num_updates, settings.sampled)
        batches = bits[:, None] if settings.prioritized else bits[None]  # one by one if each changes the priorities of the next
        if playing is not None:
            noise = drawn_ahead(noise_of_rollout, state.key, int(state.num_rollouts), (settings.num_steps, *playing.is_first.shape))
            seen_next = (playing.obs, playing.env_state.mask, noise[0])
    packed = state.packed.with_params({})
    for rows in batches:
        sample = replay.sample_with(rows.reshape(-1))
        weighed = (sample.probability, replay.size) if settings.prioritized else (None, None)
        counts = np.array([num_steps, num_updates, num_gradient_steps], np.int32)
        learned, error, answer = _learn_on_host(learned, packed, counts, settings.cfg, seen_next, sample.items, *weighed, opt, reduce)
        answers.append(np.asarray(answer))
        num_gradient_steps += len(rows)
        if settings.prioritized:
            replay = replay.reprioritize(sample.slots, np.asarray(error))
    if not answers:
        answers.append(np.asarray(_learn_nothing(np.array([num_steps, num_updates], np.int32), settings.cfg)))
    epsilon, action = answers[-1][NUM_METRICS, ...], answers[-1][NUM_METRICS + 1 :]
    played_with, learner = state.epsilon, Learner(*learned, num_gradient_steps=np.int32(num_gradient_steps))
    moved = {"replay": replay, "window": window, "epsilon": epsilon, "num_steps": np.int32(num_steps)}
    state = state.learned(learner, **moved, num_updates=np.int32(num_updates + 1))
    if seen_next is not None:
        foresight = Foresight(settings.num_steps, seen_by_first_action(state), read_only(action.astype(np.int32)))
        once(foresights, state.packed).append(foresight)
    return state, combine(answers) | {"train/epsilon": played_with}


@functools.partial(jax.jit, static_argnames=("opt", "reduce"))
def _learn_on_host(learned, packed, counts, cfg, seen_next, items, probability, size, opt, reduce):
    cfg = cfg.model.model
    num_steps, num_updates, num_gradient_steps = counts
    learner = Learner(*learned, num_gradient_steps=num_gradient_steps)
    check_optimizer("dqn", opt or make_optimizer(cfg, 0), learner.params, learner.opt_state, given=opt is not None)

    def step(learner, drawn):
        batch, chance = drawn
        learner, error, metrics = learn(learner, packed, batch, chance, size, cfg, num_updates, opt, reduce)
        return learner, (error if cfg.prioritized else None, metrics)

    drawn = jax.tree.map(lambda x: x.reshape(-1, cfg.batch_size, *x.shape[1:]), (items, probability))
    learner, (error, metrics) = jax.lax.scan(step, learner, drawn)
    sums, count = jax.tree.map(lambda x: x.sum(0), metrics), jnp.int32(len(metrics["train/loss"]))
    epsilon, action = epsilon_at(num_steps, cfg), jnp.zeros(0)
    if seen_next is not None:
        obs, mask, noise = seen_next
        action = choose(QPolicy(packed.with_params(learner.params).model, epsilon), obs, None, None, mask, noise)[0]
    answer = as_vector(summarize(sums, count, num_updates, cfg), epsilon, action)
    return learner[:3], None if error is None else error.reshape(-1), answer


@jax.jit
def _learn_nothing(counts, cfg):
    cfg = cfg.model.model
    num_steps, num_updates = counts
    return as_vector(summarize(no_sums(), jnp.int32(0), num_updates, cfg), epsilon_at(num_steps, cfg), jnp.zeros(0))


NUM_METRICS = len(METRICS)
COUNTED = ("train/skipped", "train/gradient_steps")


def as_vector(metrics: Metrics, epsilon: Float[Array, ""], action: Shaped[Array, " B"]) -> Float[Array, " M"]:
    """All in one array: each that leaves a compiled program costs time."""
    return jnp.concatenate([jnp.stack([*metrics.values(), epsilon]), action.astype(jnp.float32)])


def combine(answers: list[Float[np.ndarray, " M"]]) -> Metrics:
    """The metrics of the gradient steps of one update: means, and of what is counted the sum."""
    if len(answers) == 1:
        return dict(zip(METRICS, answers[0], strict=False))
    table = dict(zip(METRICS, np.stack(answers, 1), strict=False))
    return {name: row.sum() if name in COUNTED else row.mean() for name, row in table.items()}
