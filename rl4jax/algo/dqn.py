"""Deep Q-learning (Mnih et al. 2015), with double targets, n steps and prioritised replay as options; a dueling network is a model.

Differs from the paper: the loss is the squared error, the target network follows slowly at every step unless told otherwise, and a
truncated episode is bootstrapped from its last observation.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray, PyTree

from rl4jax.collect.play import play_in_graph
from rl4jax.collect.playing import AnyVecEnv, Playing, begin, check_faults, check_goes_on
from rl4jax.collect.replay import PrioritizedReplay, Replay
from rl4jax.collect.rollout import Rollout
from rl4jax.collect.transition import Window, begin_window, fold
from rl4jax.core.contract import check_key
from rl4jax.core.errors import is_count_or_zero, require
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.number import Number, is_concrete
from rl4jax.core.number_rules import CLIP, POSITIVE, RATE, SHARE, check_counts, check_numbers
from rl4jax.core.on_device import on_device
from rl4jax.core.schedule import Linear, Schedule, as_setting
from rl4jax.core.spaces import struct_of
from rl4jax.core.vec_env import check_vec_env
from rl4jax.nn.flat_model import FlatModel
from rl4jax.nn.model_check import check_callable
from rl4jax.nn.packed import Packed, pack
from rl4jax.nn.q_policy import QModel, QPolicy, check_q_model, pack_policy
from rl4jax.nn.target_network import polyak

from .acting import act as act_by
from .dqn_on_host import collect_on_host, update_on_host
from .loop import Metrics, identity, run
from .optimizer import check_optimizer
from .q_learning import MOST_STEPS, Learner, bits_of_update, epsilon_at, learn, loss as loss, make_optimizer, no_sums, play_key, summarize
from .q_memory import check_priorities, check_replay, make_replay, replay_on_disk as replay_on_disk, transition_like as transition_like


class Config(eqx.Module):
    """Settings. Whole numbers and switches are static; the others are leaves: `vmap` over them works, a new value compiles nothing."""

    lr: Number | Schedule = eqx.field(default=1e-4, converter=as_setting)  # learning rate; a schedule counts updates
    gamma: Number = 0.99  # discount
    capacity: int = eqx.field(default=10_000, static=True)  # transitions that are remembered
    batch_size: int = eqx.field(default=32, static=True)  # transitions in each gradient step
    tau: Number = 0.005  # how far the target network moves towards the online one; 1 = a copy
    # 0: the caller moves it, by `move_target`
    target_every: int = eqx.field(default=1, static=True)  # gradient steps between two moves of the target network
    epsilon: Number | Schedule = eqx.field(default=Linear(1.0, 0.05, 10_000), converter=as_setting)  # share of random actions by env steps
    learning_starts: int = eqx.field(default=1_000, static=True)  # env steps before the first gradient step
    num_steps: int = eqx.field(default=1, static=True)  # T, per environment and rollout
    gradient_steps: int = eqx.field(default=1, static=True)  # per update
    n_step: int = eqx.field(default=1, static=True)  # rewards that are summed before the target network is asked
    double: bool = eqx.field(default=False, static=True)  # van Hasselt et al. 2016: the online network chooses, the target one judges
    prioritized: bool = eqx.field(default=False, static=True)  # Schaul et al. 2016: surprising transitions are replayed more often
    priority_alpha: Number = 0.6  # how much more often: 0 = uniformly
    priority_beta: Number | Schedule = eqx.field(default=0.4, converter=as_setting)  # how much of that the loss corrects: 1 = all
    max_grad_norm: Number = 0.0  # 0 = no clipping
    adam_eps: Number = 1e-5  # Adam's epsilon

    def __check_init__(self):
        check_counts(self, "dqn.Config", "capacity", "batch_size", "num_steps", "gradient_steps", "n_step")
        for name in ("target_every", "learning_starts"):
            value = getattr(self, name)
            require(is_count_or_zero(value), f"dqn.Config.{name}", value, "zero or a positive integer")
        tau = (lambda x: (x > 0) & (x <= 1), "in (0, 1]: 1 copies")
        rules = {"lr": RATE, "gamma": SHARE, "tau": tau, "priority_alpha": SHARE, "max_grad_norm": CLIP, "adam_eps": POSITIVE}
        share = (SHARE[0], "in [0, 1], or a schedule")
        check_numbers(self, "dqn.Config", rules | {"epsilon": share, "priority_beta": share})

    def work_of_update(self, num_envs: int) -> int:
        """About how many steps of environments take as long as an update."""
        return max(self.num_steps * num_envs, self.gradient_steps)


class State(NamedTuple):
    """Everything a run is: saving it is saving the run. A pytree of arrays, so plain `jit`, `scan` and `vmap` take it."""

    packed: Packed
    target_params: dict[str, Any]
    opt_state: PyTree
    replay: Any  # Replay or PrioritizedReplay; for host environments HostReplay, DiskReplay or HostPrioritizedReplay
    window: Window | None  # the steps that wait until n have followed
    playing: Playing
    epsilon: Float[Array, ""]  # of the next rollout
    num_rollouts: Int32[Array, ""]
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
        return self.packed.with_params(self.target_params).model

    @property
    def policy(self) -> QPolicy:
        """The Q-network as a policy, as `rl.evaluate` and `rl.collect.unroll` take it; its random share is that of the next rollout."""
        return QPolicy(self.model, self.epsilon)

    @property
    def learner(self) -> Learner:
        """What a gradient step changes."""
        return Learner(self.packed.params, self.target_params, self.opt_state, self.num_gradient_steps)

    def learned(self, learner: Learner, **moved: Any) -> "State":
        """The state with what gradient steps led to, and other fields."""
        params, target_params, opt_state, num_gradient_steps = learner
        moved |= {"target_params": target_params, "opt_state": opt_state, "num_gradient_steps": num_gradient_steps}
        return self._replace(packed=self.packed.with_params(params), **moved)


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

    `replay` may be a ring of your own for transitions such as `dqn.transition_like(env, playing)`, of any capacity: a `DiskReplay` on the
    host, say, for more images than memory holds. With `cfg.prioritized` it must be a prioritised one.
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
        replay=make_replay(env, playing, cfg) if replay is None else check_replay(replay, env, playing, cfg),
        window=begin_window(playing.obs, struct_of(env.single_action_space), env.action_mask(playing.env_state), cfg.n_step, xp),
        playing=playing,
        epsilon=epsilon_at(0, cfg),
        num_rollouts=jnp.zeros((), jnp.int32),
        num_steps=jnp.zeros((), jnp.int32),
        num_gradient_steps=jnp.zeros((), jnp.int32),
        num_updates=jnp.zeros((), jnp.int32),
        key=key,
    )


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
    check_callable(model, of_state="model")
    if is_concrete(epsilon):
        require(bool(0 <= epsilon <= 1), "dqn.act: epsilon", epsilon, "a probability, in [0, 1]")
    return act_by(QPolicy(model, jnp.asarray(epsilon, jnp.float32)), obs, carry, mask, key=key)


def collect(state: State, env: AnyVecEnv, cfg: Config) -> tuple[State, Rollout]:
    """Play `cfg.num_steps` steps in each environment, mostly by the Q-network, from where the last rollout ended."""
    check_goes_on(state.playing, env)
    if isinstance(env, GymVecEnv):
        return collect_on_host(state, env, cfg)
    check_faults(state.playing.faults, env)
    given = (state.packed, state.playing, state.epsilon, state.num_rollouts, state.key)
    playing, num_rollouts, rollout = _collect_in_graph(*given, on_device(env), cfg.num_steps)
    return state._replace(playing=playing, num_rollouts=num_rollouts), rollout


@functools.partial(jax.jit, static_argnames="length")
def _collect_in_graph(packed, playing, epsilon, num_rollouts, key, env, length):
    policy, key = pack_policy(packed, epsilon), play_key(jax.random.fold_in(key, num_rollouts))
    playing, rollout = play_in_graph(policy, env, playing, length, key=key, judged=False)
    return playing, num_rollouts + 1, rollout


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
    if not isinstance(state.replay, Replay | PrioritizedReplay):
        return update_on_host(state, rollout, cfg, opt, reduce)
    # In-graph environments have no dead slots. One on the host may, if its rollouts are learned from here.
    all_valid = not is_concrete(rollout.valid) or bool(np.asarray(rollout.valid).all())
    updated, metrics = _update_in_graph(state._replace(playing=None), rollout, on_device(cfg), all_valid, opt, reduce)
    return updated._replace(playing=state.playing), metrics


@functools.partial(jax.jit, static_argnames=("all_valid", "opt", "reduce"))
def _update_in_graph(state, rollout, cfg, all_valid, opt, reduce):
    check_priorities(state.replay, cfg.prioritized)
    check_optimizer("dqn", opt or make_optimizer(cfg, 0), state.packed.params, state.opt_state, given=opt is not None)
    window, transitions, valid = fold(state.window, rollout, cfg.n_step, cfg.gamma, jnp)
    all_real = all_valid and cfg.n_step == 1 and rollout.mask is None
    replay = state.replay.add(transitions, None if all_real else valid)
    num_steps = state.num_steps + (rollout.reward.size if all_valid else rollout.valid.sum(dtype=jnp.int32))
    num_steps = jnp.where(num_steps < 0, MOST_STEPS, num_steps)
    bits = bits_of_update(jax.random.fold_in(state.key, state.num_updates), (cfg.gradient_steps, cfg.batch_size))
    samples = None if cfg.prioritized else jax.vmap(replay.sample_with)(bits)

    def step(i, carry):
        learner, ring, sums = carry
        sample = jax.tree.map(lambda x: x[i], samples) if ring is None else ring.sample_with(bits[i])
        chance = sample.probability if cfg.prioritized else None
        learner, error, metrics = learn(learner, state.packed, sample.items, chance, replay.size, cfg, state.num_updates, opt, reduce)
        return learner, None if ring is None else ring.reprioritize(sample.slots, error), jax.tree.map(jnp.add, sums, metrics)

    # A loop without turns rather than a `cond`, which would copy the memory.
    count = jnp.where((num_steps >= cfg.learning_starts) & (replay.size > 0), cfg.gradient_steps, 0)
    begun = (state.learner, replay if cfg.prioritized else None, no_sums())
    learner, ring, sums = jax.lax.fori_loop(0, count, step, begun)
    metrics = summarize(sums, count, state.num_updates, cfg) | {"train/epsilon": state.epsilon}
    moved = {"replay": replay if ring is None else ring, "window": window, "epsilon": epsilon_at(num_steps, cfg)}
    return state.learned(learner, **moved, num_steps=num_steps, num_updates=state.num_updates + 1), metrics


def move_target(state: State, tau: Number = 1.0) -> State:
    """Move the target network towards the online one: `target = tau * online + (1 - tau) * target`. For `target_every=0`."""
    return state._replace(target_params=polyak(state.target_params, state.packed.params, tau))


def train(
    state: State, env: AnyVecEnv, cfg: Config, num_updates: int, opt: optax.GradientTransformation | None = None
) -> tuple[State, Metrics]:
    """`num_updates` times collect and update, as one compiled program for in-graph environments; metrics have an axis in front."""
    if isinstance(env, GymVecEnv) and opt is None and all(x.dtype == jnp.float32 for x in state.packed.params.values()):
        return _train_flat(state, env, cfg, num_updates)
    return run(collect, update, state, env, cfg, num_updates, opt)


def _train_flat(state, env, cfg, num_updates):
    """With one vector of parameters, as our optimizer has them anyway."""
    model = FlatModel(state.packed)
    flat = state._replace(packed=pack(model), target_params={"vector": ravel_pytree(state.target_params)[0]})
    flat, metrics = run(collect, update, flat, env, cfg, num_updates, None)
    params, target_params = (model.params_of(x["vector"]) for x in (flat.packed.params, flat.target_params))
    return flat._replace(packed=state.packed.with_params(params), target_params=target_params), metrics
