"""DreamerV3 (Hafner et al. 2025): learn a model of the world, and in it a policy. R2-Dreamer (Morihira et al. 2026) is a representation.

Differs from the authors' code: the policy has a uniform share of 1 %, as the paper says, and latents are drawn greedily in greedy play.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int32, PRNGKeyArray, PyTree

from rl4jax.algo.acting import act as act
from rl4jax.algo.loop import Metrics, identity, run
from rl4jax.algo.optimizer import check_optimizer
from rl4jax.collect.percentile_normalizer import PercentileNormalizer
from rl4jax.collect.play import play_in_graph, play_on_host
from rl4jax.collect.playing import AnyVecEnv, Playing, begin, check_faults, check_goes_on
from rl4jax.collect.replay.host_sequences import HostSequenceReplay
from rl4jax.collect.replay.sequences import SequenceReplay
from rl4jax.collect.rollout import Rollout
from rl4jax.core.contract import check_key
from rl4jax.core.errors import require
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.on_device import on_device
from rl4jax.core.vec_env import check_vec_env
from rl4jax.nn.model_check import check_model
from rl4jax.nn.packed import Packed, pack

from .agent import REPRESENTATIONS as REPRESENTATIONS, Agent as Agent
from .behaviour import actor_critic_loss as actor_critic_loss
from .config import Config as Config
from .imagination import Imagined as Imagined, imagine_rollout as imagine_rollout
from .kl_balance import kl_balanced_loss as kl_balanced_loss
from .laprop import clip_by_weight as clip_by_weight, scale_by_laprop as scale_by_laprop
from .learning import Learner, earned, keys_of_step, learn, loss as loss, make_optimizer, no_sums, summarize
from .on_host import update_on_host
from .prototypes import Prototypes as Prototypes
from .representation import BarlowTwins as BarlowTwins, Decoder as Decoder, InfoNCE as InfoNCE, Representation as Representation
from .ring import check_replay, check_settings, make_replay, moment_like as moment_like, replay_on_disk as replay_on_disk
from .sizes import SIZES as SIZES, Size as Size
from .stream import Moment as Moment, as_stream
from .world_model import world_model_loss as world_model_loss


class State(NamedTuple):
    """Everything a run is: saving it is saving the run. A pytree of arrays, so plain `jit`, `scan` and `vmap` take it."""

    packed: Packed
    slow_value: Packed  # the slow critic
    opt_state: PyTree
    normalizer: PercentileNormalizer
    replay: Any  # SequenceReplay; for host environments HostSequenceReplay
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

    @property
    def learner(self) -> Learner:
        """What a gradient step changes."""
        return Learner(self.packed, self.slow_value, self.opt_state, self.normalizer)

    def learned(self, learner: Learner, **moved: Any) -> "State":
        """After an update."""
        return self._replace(**learner._asdict(), **moved, num_updates=self.num_updates + 1)


def init(
    model: Agent,
    env: AnyVecEnv,
    cfg: Config,
    *,
    key: PRNGKeyArray,
    opt: optax.GradientTransformation | None = None,
    replay: SequenceReplay | HostSequenceReplay | None = None,
) -> State:
    """The state before the first update: all environments reset, nothing remembered.

    `replay` may be a ring of your own; for environments on the host, such as `dreamer.replay_on_disk(folder, model, env, cfg)`.
    """
    check_vec_env(env, "dreamer.init")
    require(isinstance(model, Agent), "dreamer.init: model", type(model).__name__, "a dreamer.Agent", "Use dreamer.Agent(env, key=key).")
    check_model(model, env.single_observation_space, env.single_action_space)
    check_key(key, "dreamer.init")
    replay = make_replay(model, env, cfg) if replay is None else check_replay(replay, model, env, cfg)
    packed = pack(model)
    key, begin_key = jax.random.split(key)
    return State(
        packed=packed,
        slow_value=jax.tree.map(jnp.copy, pack(model.value)),
        opt_state=(opt or make_optimizer(cfg, 0)).init(packed.params),
        normalizer=PercentileNormalizer.create(decay=cfg.return_decay, start=0.0),
        replay=replay,
        playing=begin(model, env, key=begin_key),
        last_reward=jnp.zeros(env.num_envs),
        credit=jnp.zeros(()),
        num_updates=jnp.zeros((), jnp.int32),
        num_gradient_steps=jnp.zeros((), jnp.int32),
        key=key,
    )


def collect(state: State, env: AnyVecEnv, cfg: Config) -> tuple[State, Rollout]:
    """Play `cfg.num_steps` steps in each environment, from where the last rollout ended."""
    check_goes_on(state.playing, env)
    check_faults(state.playing.faults, env)
    if isinstance(env, GymVecEnv):
        key, play_key = jax.random.split(state.key)
        playing, rollout = play_on_host(state.packed, env, state.playing, cfg.num_steps, key=play_key, judged=False, hold=cfg.hold)
    else:
        playing, rollout, key = _collect_in_graph(state.packed, state.playing, state.key, on_device(env), cfg.num_steps, cfg.hold)
    return state._replace(playing=playing, key=key), rollout


@functools.partial(jax.jit, static_argnames="num_steps")
def _collect_in_graph(packed, playing, key, env, num_steps, hold):
    key, play_key = jax.random.split(key)
    return *play_in_graph(packed, env, playing, num_steps, key=play_key, judged=False, hold=hold), key


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
    make = update_on_host if isinstance(state.replay, HostSequenceReplay) else _update_in_graph
    updated, metrics = make(state._replace(playing=None), rollout, on_device(cfg), opt, reduce)
    return updated._replace(playing=state.playing), metrics


@functools.partial(jax.jit, static_argnames=("opt", "reduce"))
def _update_in_graph(state, rollout, cfg, opt, reduce):
    check_optimizer("dreamer", opt or make_optimizer(cfg, 0), state.packed.params, state.opt_state, given=opt is not None)
    check_settings(state.replay, cfg, "dreamer.update")
    stream, real, last_reward = as_stream(rollout, state.last_reward)
    replay = state.replay.add(stream, real)
    credit, count = earned(state.credit, rollout.valid.sum(), replay, cfg, jnp)
    key, learn_key = jax.random.split(state.key)

    def step(i, now):
        learner, replay, sums = now
        sample_key, loss_key = keys_of_step(learn_key, state.num_gradient_steps + i)
        replay, sequences = replay.sample_fresh(cfg.batch_size, 1 + cfg.length, key=sample_key)
        learner, latents, metrics = learn(learner, sequences.items, cfg, opt, reduce, state.num_gradient_steps + i, key=loss_key)
        replay = replay.rewrite(sequences._replace(items=None, rows=sequences.rows[1:]), latent=latents)
        return learner, replay, jax.tree.map(jnp.add, sums, metrics)

    learner, replay, sums = jax.lax.fori_loop(0, count, step, (state.learner, replay, no_sums()))
    moved = {"replay": replay, "last_reward": last_reward, "credit": credit, "key": key}
    return state.learned(learner, **moved, num_gradient_steps=state.num_gradient_steps + count), summarize(sums, count)


def train(
    state: State, env: AnyVecEnv, cfg: Config, num_updates: int, opt: optax.GradientTransformation | None = None
) -> tuple[State, Metrics]:
    """`num_updates` times collect and update, as one compiled program for in-graph environments; metrics have an axis in front."""
    return run(collect, update, state, env, cfg, num_updates, opt)
