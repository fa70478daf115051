"""Deep Q-learning (Mnih et al. 2015), with double targets, n steps and prioritised replay as options; a dueling network is a model.

Differs from the paper: the loss is the squared error, the target network follows slowly at every step unless told otherwise, and a
truncated episode is bootstrapped from its last observation.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray, PyTree

from rl4jax.collect.play import play_in_graph, play_on_host
from rl4jax.collect.playing import AnyVecEnv, Playing, begin, check_faults, check_goes_on
from rl4jax.collect.replay import HostPrioritizedReplay, HostReplay, PrioritizedReplay, Replay, importance_weights
from rl4jax.collect.rollout import Rollout
from rl4jax.collect.transition import Transition, Window, begin_window, fold
from rl4jax.core.contract import check_key
from rl4jax.core.errors import is_count, require
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.number import Number
from rl4jax.core.number_rules import CLIP, POSITIVE, RATE, SHARE, check_counts, check_numbers
from rl4jax.core.on_device import on_device
from rl4jax.core.schedule import Linear, Schedule, as_setting, value_at
from rl4jax.core.spaces import struct_of
from rl4jax.core.vec_env import check_vec_env
from rl4jax.nn.packed import Packed, pack
from rl4jax.nn.polyak import polyak
from rl4jax.nn.q_policy import QModel, QPolicy, check_q_model, pack_policy

from .acting import act as act_by
from .loop import Metrics, identity, run
from .optimizer import check_optimizer, gradient_step, make_adam


class Config(eqx.Module):
    """Settings. Whole numbers and switches are static; the others are leaves: `vmap` over them works, a new value compiles nothing."""

    lr: Number | Schedule = eqx.field(default=1e-4, converter=as_setting)  # a schedule counts updates
    gamma: Number = 0.99  # discount
    capacity: int = eqx.field(default=10_000, static=True)  # transitions that are remembered
    batch_size: int = eqx.field(default=32, static=True)  # transitions in each gradient step
    tau: Number = 0.005  # how far the target network moves towards the online one; 1 = a copy
    target_every: int = eqx.field(default=1, static=True)  # gradient steps between two moves; 0 = the caller moves it, by `move_target`
    epsilon: Number | Schedule = eqx.field(default=Linear(1.0, 0.05, 10_000), converter=as_setting)  # a schedule counts env steps
    learning_starts: int = eqx.field(default=1_000, static=True)  # env steps before the first gradient step
    num_steps: int = eqx.field(default=1, static=True)  # T, per environment and rollout
    gradient_steps: int = eqx.field(default=1, static=True)  # per update
    n_step: int = eqx.field(default=1, static=True)  # rewards that are summed before the target network is asked
    double: bool = eqx.field(default=False, static=True)  # van Hasselt et al. 2016: the online network chooses, the target one judges
    prioritized: bool = eqx.field(default=False, static=True)  # Schaul et al. 2016: surprising transitions are replayed more often
    priority_alpha: Number = 0.6  # how much more often: 0 = uniformly
    priority_beta: Number | Schedule = eqx.field(default=0.4, converter=as_setting)  # how much of that the loss corrects: 1 = all
    max_grad_norm: Number = 0.0  # 0 = no clipping
    adam_eps: Number = 1e-5

    def __check_init__(self):
        check_counts(self, "dqn.Config", "capacity", "batch_size", "num_steps", "gradient_steps", "n_step")
        for name in ("target_every", "learning_starts"):
            value = getattr(self, name)
            require(is_count(value) or (value == 0 and value is not False), f"dqn.Config.{name}", value, "zero or a positive integer")
        rules = {"lr": RATE, "gamma": SHARE, "tau": SHARE, "priority_alpha": SHARE, "max_grad_norm": CLIP, "adam_eps": POSITIVE}
        share = (SHARE[0], "in [0, 1], or a schedule")
        check_numbers(self, "dqn.Config", rules | {"epsilon": share, "priority_beta": share})


class State(NamedTuple):
    """Everything a run is: saving it is saving the run. A pytree of arrays, so plain `jit`, `scan` and `vmap` take it."""

    packed: Packed
    target_params: dict[str, Any]
    opt_state: PyTree
    replay: Any  # Replay or PrioritizedReplay; for host environments HostReplay, DiskReplay or HostPrioritizedReplay
    window: Window | None  # the steps that wait until n have followed
    playing: Playing
    epsilon: Float[Array, ""]  # of the last rollout
    num_steps: Int32[Array, ""]  # in all environments
    num_gradient_steps: Int32[Array, ""]
    num_updates: Int32[Array, ""]
    key: PRNGKeyArray

    @property
    def model(self) -> Any:
        """The Q-network as it was given to `init`, with today's weights."""
        return self.packed.model

    @property
    def target(self) -> Any:
        """The target network."""
        return dataclasses.replace(self.packed, params=self.target_params).model

    @property
    def policy(self) -> QPolicy:
        """The Q-network as a policy, as `rl.evaluate` and `rl.collect.unroll` take it; its random share is that of the last rollout."""
        return QPolicy(self.model, self.epsilon)


def init(
    model: QModel,
    env: AnyVecEnv,
    cfg: Config,
    *,
    key: PRNGKeyArray,
    opt: optax.GradientTransformation | None = None,
    replay: Any = None,
) -> State:
    """The state before the first update: all environments reset, nothing remembered.

    `replay` may be a ring of your own for transitions such as `dqn.transition_like(env, playing)`: a `DiskReplay` on the host, say, for
    more images than memory holds.
    """
    check_vec_env(env, "dqn.init")
    check_q_model(model, env.single_observation_space, env.single_action_space)
    check_key(key, "dqn.init")
    packed = pack(model)
    require(bool(packed.params), "dqn.init: model", model, "a model with parameters", "None of its leaves is an array of floats.")
    key, begin_key = jax.random.split(key)
    playing = begin(model, env, key=begin_key)
    xp = np if isinstance(env, GymVecEnv) else jnp
    return State(
        packed=packed,
        target_params=jax.tree.map(jnp.copy, packed.params),  # arrays of its own, so that a state can be donated
        opt_state=(opt or make_optimizer(cfg, 0)).init(packed.params),
        replay=make_replay(env, playing, cfg) if replay is None else replay,
        window=begin_window(playing.obs, struct_of(env.single_action_space), env.action_mask(playing.env_state), cfg.n_step, xp),
        playing=playing,
        epsilon=jnp.asarray(value_at(cfg.epsilon, 0), jnp.float32),
        num_steps=jnp.zeros((), jnp.int32),
        num_gradient_steps=jnp.zeros((), jnp.int32),
        num_updates=jnp.zeros((), jnp.int32),
        key=key,
    )


def make_replay(env: AnyVecEnv, playing: Playing, cfg: Config) -> Any:
    """An empty ring for the transitions of this environment: on the device, or in the memory of the host."""
    like, alpha = transition_like(env, playing), cfg.priority_alpha
    if isinstance(env, GymVecEnv):
        return HostPrioritizedReplay.empty(cfg.capacity, like, float(alpha)) if cfg.prioritized else HostReplay.empty(cfg.capacity, like)
    return PrioritizedReplay.empty(cfg.capacity, like, alpha) if cfg.prioritized else Replay.empty(cfg.capacity, like)


def transition_like(env: AnyVecEnv, playing: Playing) -> Transition:
    """Shapes and dtypes of one transition."""
    obs, mask = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), (playing.obs, env.action_mask(playing.env_state)))
    number = jax.ShapeDtypeStruct((), jnp.float32)
    return Transition(obs, struct_of(env.single_action_space), number, number, obs, mask)


def make_optimizer(cfg: Config, num_updates: Int32[Array, ""] | int) -> optax.GradientTransformation:
    """Global-norm clipping, if asked for, and Adam, with the learning rate of this update."""
    return make_adam(value_at(cfg.lr, num_updates), cfg.adam_eps, cfg.max_grad_norm)


def act(
    model: QModel,
    obs: PyTree,
    carry: PyTree = None,
    mask: Bool[Array, " A"] | None = None,
    *,
    epsilon: Number = 0.05,
    key: PRNGKeyArray | None = None,
) -> tuple[PyTree, PyTree]:
    """The best action for one observation, or with a key any one with probability `epsilon`; the carry is None, as a Q-network has none."""
    return act_by(QPolicy(model, jnp.asarray(epsilon, jnp.float32)), obs, carry, mask, key=key)


def collect(state: State, env: AnyVecEnv, cfg: Config) -> tuple[State, Rollout]:
    """Play `cfg.num_steps` steps in each environment, mostly by the Q-network, from where the last rollout ended."""
    check_goes_on(state.playing, env)
    check_faults(state.playing.faults, env)
    if isinstance(env, GymVecEnv):
        epsilon, key, play_key = _before_play(state.key, state.num_steps, on_device(cfg))
        policy = pack_policy(state.packed, epsilon)
        playing, rollout = play_on_host(policy, env, state.playing, cfg.num_steps, key=play_key, judged=False)
    else:
        playing, rollout, epsilon, key = _collect_in_graph(
            state.packed, state.playing, state.key, state.num_steps, on_device(env), on_device(cfg)
        )
    return state._replace(playing=playing, epsilon=epsilon, key=key), rollout


@jax.jit
def _before_play(key, num_steps, cfg):
    key, play_key = jax.random.split(key)
    return jnp.asarray(value_at(cfg.epsilon, num_steps), jnp.float32), key, play_key


@jax.jit
def _collect_in_graph(packed, playing, key, num_steps, env, cfg):
    epsilon, key, play_key = _before_play(key, num_steps, cfg)
    policy = pack_policy(packed, epsilon)
    return *play_in_graph(policy, env, playing, cfg.num_steps, key=play_key, judged=False), epsilon, key


def loss(
    model: QModel, target: QModel, batch: Transition, cfg: Config, weight: Float[Array, " N"] | float = 1.0
) -> tuple[Float[Array, ""], tuple[Metrics, Float[Array, " N"]]]:
    """`mean(weight * (Q(s, a) - y)^2)` with `y = reward + discount * max_a Q_target(s', a)`; also the errors, one per transition."""
    q_values, next_q = jax.vmap(model)(batch.obs), jax.vmap(target)(batch.next_obs)
    judge = jax.vmap(model)(batch.next_obs) if cfg.double else next_q
    if batch.next_mask is not None:
        judge = jnp.where(batch.next_mask, judge, -jnp.inf)
    best = one_hot(judge.argmax(-1), next_q)
    y = jax.lax.stop_gradient(batch.reward + batch.discount * jnp.where(best, next_q, 0.0).sum(-1))
    q = jnp.where(one_hot(batch.action, q_values), q_values, 0.0).sum(-1)
    error = q - y
    total = (weight * error**2).mean()
    return total, ({"train/loss": total, "train/mean_q": q.mean()}, error)


def one_hot(index: Int32[Array, " N"], like: Float[Array, "N A"]) -> Bool[Array, "N A"]:
    """True at the index of each row. As a mask, because the gradient of an index is a scatter, which is slow."""
    return jnp.arange(like.shape[-1]) == index[:, None]


class Learner(NamedTuple):
    """What a gradient step changes."""

    params: dict[str, Any]
    target_params: dict[str, Any]
    opt_state: PyTree
    num_gradient_steps: Int32[Array, ""]


def learn(
    learner: Learner,
    packed: Packed,
    batch: Transition,
    probability: Float[Array, " N"] | None,  # of being drawn; None if all were alike
    size: Int32[Array, ""] | int | None,  # of the memory; likewise
    cfg: Config,
    num_updates: Int32[Array, ""],
    opt: Any,
    reduce: Any,
) -> tuple[Learner, Float[Array, " N"], Metrics]:
    """One gradient step on one batch. If a loss or a gradient is not finite, nothing is learned from it."""
    beta = value_at(cfg.priority_beta, num_updates)
    weight = 1.0 if probability is None or size is None else importance_weights(probability, size, beta)
    target = dataclasses.replace(packed, params=learner.target_params).model

    def of_params(params):
        return loss(dataclasses.replace(packed, params=params).model, target, batch, cfg, weight)

    step = gradient_step(of_params, learner.params, learner.opt_state, opt or make_optimizer(cfg, num_updates), reduce)
    count, target_params = learner.num_gradient_steps + 1, learner.target_params
    if cfg.target_every:
        target_params = polyak(target_params, step.params, jnp.where(count % cfg.target_every == 0, cfg.tau, 0.0))
    return Learner(step.params, target_params, step.opt_state, count), step.extra, step.metrics


def update(
    state: State,
    rollout: Rollout,
    cfg: Config,
    opt: optax.GradientTransformation | None = None,
    *,
    reduce: Callable[[PyTree], PyTree] = identity,
) -> tuple[State, Metrics]:
    """Remember a rollout, and once there is enough, make `cfg.gradient_steps` gradient steps on random samples of the memory.

    Until then the losses among the metrics are NaN. `opt` replaces clipping, Adam and `cfg.lr` by an optimizer of your own; give the same
    one to `init`. `reduce` averages gradients and metrics over machines. A gradient step whose loss or gradient is not finite is left
    out and counted in `train/skipped`.
    """
    if isinstance(state.replay, Replay | PrioritizedReplay):
        updated, metrics = _update_in_graph(state._replace(playing=None), rollout, on_device(cfg), opt, reduce)
    else:
        updated, metrics = _update_on_host(state._replace(playing=None), rollout, cfg, opt, reduce)
    return updated._replace(playing=state.playing), metrics


@functools.partial(jax.jit, static_argnames=("opt", "reduce"))
def _update_in_graph(state, rollout, cfg, opt, reduce):
    check_optimizer("dqn", opt or make_optimizer(cfg, 0), state.packed.params, state.opt_state, given=opt is not None)
    window, transitions, valid = fold(state.window, rollout, cfg.n_step, cfg.gamma, jnp)
    all_real = cfg.n_step == 1 and rollout.mask is None  # in-graph environments have no dead slots
    replay = state.replay.add(transitions, None if all_real else valid)
    num_steps = state.num_steps + rollout.reward.size
    key, bits = _draw_bits(state.key, cfg)
    samples = None if cfg.prioritized else jax.vmap(replay.sample_with)(bits)

    def step(i, carry):
        learner, ring, sums = carry
        sample = jax.tree.map(lambda x: x[i], samples) if ring is None else ring.sample_with(bits[i])
        chance = sample.probability if cfg.prioritized else None
        learner, error, metrics = learn(learner, state.packed, sample.items, chance, replay.size, cfg, state.num_updates, opt, reduce)
        return learner, None if ring is None else ring.reprioritize(sample.slots, error), jax.tree.map(jnp.add, sums, metrics)

    # A loop without turns rather than a `cond`, which would copy the memory.
    count = jnp.where((num_steps >= cfg.learning_starts) & (replay.size > 0), cfg.gradient_steps, 0)
    begun = (learner_of(state), replay if cfg.prioritized else None, dict.fromkeys(SUMMED, jnp.zeros(())))
    learner, ring, sums = jax.lax.fori_loop(0, count, step, begun)
    metrics = summarize(sums, count, state.epsilon, state.num_updates, cfg)
    return after(state, learner, replay if ring is None else ring, window, num_steps, key), metrics


def _update_on_host(state, rollout, cfg, opt, reduce):
    """The same with a ring in the memory of the host, or on its disk. As little as possible goes in and out of compiled programs."""
    window, transitions, valid = fold(state.window, rollout, cfg.n_step, np.float32(cfg.gamma), np)
    replay = state.replay.add(transitions, valid)
    num_steps = np.int32(state.num_steps) + np.int32(rollout.reward.size)
    cfg = on_device(cfg)
    key, bits = _draw_bits(state.key, cfg)
    learner, rows, metrics = learner_of(state), np.asarray(bits), []
    enough = num_steps >= cfg.learning_starts and replay.size > 0
    for chosen in np.split(rows, len(rows) if cfg.prioritized else 1) if enough else ():  # each step changes the priorities of the next
        samples = [replay.sample_with(row) for row in chosen]
        items = stack([sample.items for sample in samples])
        weighed = (samples[0].probability[None], replay.size) if cfg.prioritized else (None, None)
        given = (state.packed, state.epsilon, state.num_updates)
        learner, errors, said = _learn_on_host(learner, *given, items, *weighed, cfg, opt, reduce)
        metrics.append(said)
        if cfg.prioritized:
            replay = replay.reprioritize(samples[0].slots, np.asarray(errors[0]))
    summary = mean_of(metrics) if metrics else _nothing_learned(state.epsilon, state.num_updates, cfg)
    return after(state, learner, replay, window, num_steps, key), summary


SUMMED = ("train/loss", "train/mean_q", "train/grad_norm", "train/skipped")


@jax.jit
def _draw_bits(key, cfg):
    key, sample_key = jax.random.split(key)
    return key, jax.random.bits(sample_key, (cfg.gradient_steps, cfg.batch_size), jnp.uint32)


@functools.partial(jax.jit, static_argnames=("opt", "reduce"))
def _learn_on_host(learner, packed, epsilon, num_updates, items, probability, size, cfg, opt, reduce):
    check_optimizer("dqn", opt or make_optimizer(cfg, 0), packed.params, learner.opt_state, given=opt is not None)

    def step(learner, drawn):
        batch, chance = drawn
        learner, error, metrics = learn(learner, packed, batch, chance, size, cfg, num_updates, opt, reduce)
        return learner, (error if cfg.prioritized else None, metrics)

    learner, (errors, metrics) = jax.lax.scan(step, learner, (items, probability))
    sums = jax.tree.map(lambda x: x.sum(0), metrics)
    return learner, errors, summarize(sums, jnp.int32(jax.tree.leaves(items)[0].shape[0]), epsilon, num_updates, cfg)


@jax.jit
def _nothing_learned(epsilon, num_updates, cfg):
    return summarize(dict.fromkeys(SUMMED, jnp.zeros(())), jnp.int32(0), epsilon, num_updates, cfg)


def stack(trees: list[PyTree]) -> PyTree:
    """One tree of arrays with an axis in front; of a single one a view."""
    return jax.tree.map(lambda *x: x[0][None] if len(x) == 1 else np.stack(x), *trees)


def mean_of(metrics: list[Metrics]) -> Metrics:
    """The metrics of several gradient steps as those of one update."""
    if len(metrics) == 1:
        return metrics[0]
    totals = {name: np.sum(jax.device_get([row[name] for row in metrics])) for name in metrics[0]}
    counted = ("train/skipped", "train/gradient_steps")
    return {name: jnp.asarray(x if name in counted else x / len(metrics), jnp.float32) for name, x in totals.items()}


def learner_of(state: State) -> Learner:
    return Learner(state.packed.params, state.target_params, state.opt_state, state.num_gradient_steps)


def after(state: State, learner: Learner, replay: Any, window: Window, num_steps: Any, key: PRNGKeyArray) -> State:
    """The state after an update."""
    packed = dataclasses.replace(state.packed, params=learner.params)
    moved = {"target_params": learner.target_params, "opt_state": learner.opt_state, "num_gradient_steps": learner.num_gradient_steps}
    num_updates = state.num_updates + 1
    return state._replace(packed=packed, **moved, replay=replay, window=window, num_steps=num_steps, num_updates=num_updates, key=key)


def summarize(sums: Metrics, count: Int32[Array, ""], epsilon: Any, num_updates: Any, cfg: Config) -> Metrics:
    """The metrics of an update: means over its gradient steps, NaN if there were none."""
    metrics = {name: total if name == "train/skipped" else total / count for name, total in sums.items()}
    metrics |= {"train/epsilon": epsilon, "train/lr": value_at(cfg.lr, num_updates), "train/gradient_steps": count}
    return {name: jnp.asarray(x, jnp.float32) for name, x in metrics.items()}


def move_target(state: State, tau: Number = 1.0) -> State:
    """Move the target network towards the online one: `target = tau * online + (1 - tau) * target`. For `target_every=0`."""
    return state._replace(target_params=polyak(state.target_params, state.packed.params, tau))


def train(
    state: State, env: AnyVecEnv, cfg: Config, num_updates: int, opt: optax.GradientTransformation | None = None
) -> tuple[State, Metrics]:
    """`num_updates` times collect and update, as one compiled program for in-graph environments; metrics have an axis in front."""
    return run(collect, update, state, env, cfg, num_updates, opt)
