"""DreamerV3 (Hafner et al. 2025): learn a model of the world, and in it a policy. R2-Dreamer (Morihira et al. 2026) is a representation.

Differs from the authors' code: the policy has a uniform share of 1 %, as the paper says, and latents are drawn greedily in greedy play.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int32, PRNGKeyArray, PyTree

from rl4jax.algo.acting import act as act
from rl4jax.algo.loop import Metrics, identity, run
from rl4jax.algo.optimizer import check_optimizer, gradient_step
from rl4jax.collect.percentile_normalizer import PercentileNormalizer
from rl4jax.collect.play import play_in_graph, play_on_host
from rl4jax.collect.playing import AnyVecEnv, Playing, begin, check_faults, check_goes_on
from rl4jax.collect.replay.sequences import SequenceReplay
from rl4jax.collect.rollout import Rollout
from rl4jax.core.contract import check_key
from rl4jax.core.errors import require
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.on_device import on_device
from rl4jax.core.schedule import value_at
from rl4jax.core.spaces import struct_of
from rl4jax.core.vec_env import check_vec_env
from rl4jax.gradients.finite import keep_if
from rl4jax.nn.model_check import check_model
from rl4jax.nn.packed import Packed, pack
from rl4jax.nn.target_network import polyak
from rl4jax.nn.trunk import HasSpaces

from .agent import REPRESENTATIONS as REPRESENTATIONS, Agent as Agent
from .behaviour import actor_critic_loss as actor_critic_loss
from .config import Config as Config
from .imagination import imagine_rollout as imagine_rollout
from .kl_balance import kl_balanced_loss as kl_balanced_loss
from .laprop import clip_by_weight as clip_by_weight, scale_by_laprop as scale_by_laprop
from .prototypes import Prototypes as Prototypes
from .representation import BarlowTwins as BarlowTwins, Decoder as Decoder, InfoNCE as InfoNCE, Representation as Representation
from .sizes import SIZES as SIZES, Size as Size
from .stream import Moment, StoredLatent, as_stream, stored
from .world_model import world_model_loss as world_model_loss


class State(NamedTuple):
    """Everything a run is: saving it is saving the run. A pytree of arrays, so plain `jit`, `scan` and `vmap` take it."""

    packed: Packed
    slow_value: Packed  # the slow critic
    opt_state: PyTree
    normalizer: PercentileNormalizer
    replay: SequenceReplay
    playing: Playing
    last_reward: Float[Array, " B"]  # of the last step that was played: it arrives with the next observation
    credit: Float[Array, ""]  # gradient steps that were earned and not made yet
    num_updates: Int32[Array, ""]
    num_gradient_steps: Int32[Array, ""]
    key: PRNGKeyArray

    @property
    def model(self) -> Agent:
        """The agent with today's weights."""
        return self.packed.model

    @property
    def policy(self) -> Agent:
        """The same: an agent acts by itself."""
        return self.model


def init(model: Agent, env: AnyVecEnv, cfg: Config, *, key: PRNGKeyArray, opt: optax.GradientTransformation | None = None) -> State:
    """The state before the first update: all environments reset, nothing remembered."""
    check_vec_env(env, "dreamer.init")
    require(isinstance(model, Agent), "dreamer.init: model", type(model).__name__, "a dreamer.Agent", "Use dreamer.Agent(env, key=key).")
    check_model(model, env.single_observation_space, env.single_action_space)
    check_key(key, "dreamer.init")
    each, least = cfg.capacity // env.num_envs, (cfg.length + 1) * env.num_envs
    require(each > cfg.length, "dreamer.Config.capacity", cfg.capacity, f"at least (length + 1) * num_envs = {least}")
    packed = pack(model)
    key, begin_key = jax.random.split(key)
    return State(
        packed=packed,
        slow_value=jax.tree.map(jnp.copy, pack(model.value)),
        opt_state=(opt or make_optimizer(cfg, 0)).init(packed.params),
        normalizer=PercentileNormalizer.create(decay=cfg.return_decay, start=0.0),
        replay=SequenceReplay.empty(each, env.num_envs, moment_like(model, env)),
        playing=begin(model, env, key=begin_key),
        last_reward=jnp.zeros(env.num_envs),
        credit=jnp.zeros(()),
        num_updates=jnp.zeros((), jnp.int32),
        num_gradient_steps=jnp.zeros((), jnp.int32),
        key=key,
    )


def moment_like(model: Agent, env: HasSpaces) -> Moment:
    """Shapes and dtypes of one step of a stream."""
    latent, vector = jax.eval_shape(model.initial_carry)
    number, flag = (jax.eval_shape(lambda d=d: jnp.zeros((), d)) for d in (jnp.float32, jnp.bool_))
    return Moment(struct_of(env.single_observation_space), vector, number, flag, flag, flag, jax.eval_shape(stored, latent))


def make_optimizer(cfg: Config, num_gradient_steps: Int32[Array, ""] | int) -> optax.GradientTransformation:
    """Clipping by the norm of the weights, then LaProp, with the learning rate of this gradient step."""
    rate = optax.scale_by_learning_rate(value_at(cfg.lr, num_gradient_steps))
    return optax.chain(clip_by_weight(cfg.clip), optax.flatten(optax.chain(scale_by_laprop(), rate)))


def collect(state: State, env: AnyVecEnv, cfg: Config) -> tuple[State, Rollout]:
    """Play `cfg.num_steps` steps in each environment, from where the last rollout ended."""
    check_goes_on(state.playing, env)
    check_faults(state.playing.faults, env)
    if isinstance(env, GymVecEnv):
        key, play_key = jax.random.split(state.key)
        playing, rollout = play_on_host(state.packed, env, state.playing, cfg.num_steps, key=play_key, judged=False)
    else:
        playing, rollout, key = _collect_in_graph(state.packed, state.playing, state.key, on_device(env), cfg.num_steps)
    return state._replace(playing=playing, key=key), rollout


@functools.partial(jax.jit, static_argnames="num_steps")
def _collect_in_graph(packed, playing, key, env, num_steps):
    key, play_key = jax.random.split(key)
    return *play_in_graph(packed, env, playing, num_steps, key=play_key, judged=False), key


def loss(
    model: Agent, slow_value: Any, moments: Moment, normalizer: PercentileNormalizer, cfg: Config, *, key: PRNGKeyArray
) -> tuple[Float[Array, ""], tuple[Metrics, tuple[PercentileNormalizer, StoredLatent]]]:
    """All losses together, as one optimizer sees them; also the metrics, the normalizer and the latents of the steps."""
    world_key, behaviour_key = jax.random.split(key)
    world_loss, (world_metrics, seen) = world_model_loss(model, moments, cfg, key=world_key)
    behaviour_loss, (metrics, normalizer) = actor_critic_loss(model, slow_value, seen, normalizer, cfg, key=behaviour_key)
    total = world_loss + behaviour_loss
    return total, (world_metrics | metrics | {"train/loss": total}, (normalizer, stored(seen.latents)))


def update(
    state: State,
    rollout: Rollout,
    cfg: Config,
    opt: optax.GradientTransformation | None = None,
    *,
    reduce: Callable[[PyTree], PyTree] = identity,
) -> tuple[State, Metrics]:
    """Remember a rollout, and once there is enough, make as many gradient steps as `cfg.train_ratio` says.

    Metrics are means over them, NaN if there were none. A gradient step whose loss or gradient is not finite is left out and counted in
    `train/skipped`. `opt` replaces clipping, LaProp and `cfg.lr`; give the same one to `init`.
    """
    updated, metrics = _update_in_graph(state._replace(playing=None), rollout, on_device(cfg), opt, reduce)
    return updated._replace(playing=state.playing), metrics


@functools.partial(jax.jit, static_argnames=("opt", "reduce"))
def _update_in_graph(state, rollout, cfg, opt, reduce):
    check_optimizer("dreamer", opt or make_optimizer(cfg, 0), state.packed.params, state.opt_state, given=opt is not None)
    latents, vectors = rollout.memory
    stream, real, last_reward = as_stream(rollout, vectors, stored(latents), state.last_reward)
    replay = state.replay.add(stream, real)
    earned = cfg.train_ratio * rollout.valid.sum() / (cfg.batch_size * cfg.length)
    ready = (replay.size >= cfg.learning_starts) & (replay.num_stretches(1 + cfg.length) > 0)
    credit = jnp.where(ready, state.credit + earned, 0.0)
    count = jnp.floor(credit).astype(jnp.int32)
    learner = (state.packed, state.slow_value.params, state.opt_state, state.normalizer, replay)
    names = jax.eval_shape(lambda x: _learn(x, state, cfg, opt, reduce, 0)[1], learner)
    begun = learner, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), names)

    def step(i, now):
        learner, sums = now
        learner, metrics = _learn(learner, state, cfg, opt, reduce, state.num_gradient_steps + i)
        return learner, jax.tree.map(jnp.add, sums, metrics)

    learner, sums = jax.lax.fori_loop(0, count, step, begun)
    packed, slow_params, opt_state, normalizer, replay = learner
    metrics = {name: total if name == "train/skipped" else total / count for name, total in sums.items()}
    metrics |= {"train/gradient_steps": count.astype(jnp.float32)}
    num_gradient_steps = state.num_gradient_steps + count
    return state._replace(
        packed=packed,
        slow_value=state.slow_value.with_params(slow_params),
        opt_state=opt_state,
        normalizer=normalizer,
        replay=replay,
        last_reward=last_reward,
        credit=credit - count,
        num_updates=state.num_updates + 1,
        num_gradient_steps=num_gradient_steps,
    ), metrics


def _learn(learner, state, cfg, opt, reduce, number):
    """One gradient step on one batch of stretches, whose latents are written back."""
    packed, slow_params, opt_state, normalizer, replay = learner
    sample_key, loss_key = jax.random.split(jax.random.fold_in(state.key, number))
    replay, sequences = replay.sample_fresh(cfg.batch_size, 1 + cfg.length, key=sample_key)
    slow_value = state.slow_value.with_params(slow_params).model

    def of_params(params):
        return loss(packed.with_params(params).model, slow_value, sequences.items, normalizer, cfg, key=loss_key)

    done = gradient_step(of_params, packed.params, opt_state, opt or make_optimizer(cfg, number), reduce)
    new_normalizer, latents = done.extra
    fine = done.metrics["train/skipped"] == 0
    known = jax.tree.map(lambda x: x[1:], sequences.items.latent)
    normalizer, latents = keep_if(fine, (new_normalizer, latents), (normalizer, known))
    replay = replay.rewrite(sequences._replace(items=None, rows=sequences.rows[1:]), latent=latents)
    learned = packed.with_params(done.params).model
    settled = pack(eqx.tree_at(lambda x: x.representation, learned, learned.representation.after_step(learned)))
    value_params = {name: done.params[f"value.{name}"] for name in slow_params}
    slow_params = polyak(slow_params, value_params, cfg.slow_rate)
    return (keep_if(fine, settled, packed), slow_params, done.opt_state, normalizer, replay), done.metrics


def train(
    state: State, env: AnyVecEnv, cfg: Config, num_updates: int, opt: optax.GradientTransformation | None = None
) -> tuple[State, Metrics]:
    """`num_updates` times collect and update, as one compiled program for in-graph environments; metrics have an axis in front."""
    return run(collect, update, state, env, cfg, num_updates, opt)
