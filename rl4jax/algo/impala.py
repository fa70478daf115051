"""Actor-critic with V-trace (Espeholt et al. 2018, IMPALA): one gradient step per rollout, which an older policy may have played.

Differs from the paper: Adam instead of RMSProp, a truncated episode is bootstrapped from its last observation. Two options are AlphaStar's
(Vinyals et al. 2019): a second policy loss by UPGO, and values that learn from TD(lambda) instead of V-trace.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int32, PRNGKeyArray, PyTree

from rl4jax.collect.play import play_in_graph, play_on_host
from rl4jax.collect.playing import AnyVecEnv, Playing, begin, check_faults, check_goes_on
from rl4jax.collect.returns import lambda_returns
from rl4jax.collect.revisit import revisit
from rl4jax.collect.rollout import Rollout
from rl4jax.collect.upgo import upgo
from rl4jax.collect.vtrace import vtrace
from rl4jax.core.contract import check_key
from rl4jax.core.errors import require
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.number import Number
from rl4jax.core.number_rules import CLIP, NOT_NEGATIVE, POSITIVE, RATE, SHARE, check_counts, check_numbers
from rl4jax.core.on_device import on_device
from rl4jax.core.schedule import Schedule, as_setting, value_at
from rl4jax.core.vec_env import check_vec_env
from rl4jax.nn.model import Model
from rl4jax.nn.model_check import check_model
from rl4jax.nn.packed import Packed, pack

from .acting import act as act
from .loop import Metrics, identity, run
from .optimizer import check_optimizer, gradient_step, make_adam


class Config(eqx.Module):
    """Settings. Whole numbers are static; the others are leaves: `vmap` over them works, a new value compiles nothing."""

    lr: Number | Schedule = eqx.field(default=5e-4, converter=as_setting)  # learning rate; a schedule counts updates
    gamma: Number = 0.99  # discount
    trace_lambda: Number = 1.0  # how far corrections reach: 0 looks one step ahead, 1 to the end of the rollout
    clip_rho: Number = 1.0  # most weight of a step in the value targets
    clip_c: Number = 1.0  # most weight of a step in what earlier ones learn from it
    clip_pg_rho: Number = 1.0  # most weight of a step in the policy loss
    vf_coef: Number = 0.5  # weight of the value loss
    ent_coef: Number = 0.01  # weight of the entropy bonus
    upgo_coef: Number | None = None  # weight of a second policy loss, by UPGO
    td_lambda: Number | None = None  # values learn from TD(lambda) with this lambda instead of from V-trace
    num_steps: int = eqx.field(default=40, static=True)  # T, per environment and rollout
    max_grad_norm: Number = 40.0  # 0 = no clipping
    adam_eps: Number = 1e-5  # Adam's epsilon

    def __check_init__(self):
        check_counts(self, "impala.Config", "num_steps")
        rules = {"lr": RATE, "gamma": SHARE, "trace_lambda": SHARE, "vf_coef": NOT_NEGATIVE, "ent_coef": NOT_NEGATIVE}
        rules |= {"max_grad_norm": CLIP, "adam_eps": POSITIVE} | dict.fromkeys(("clip_rho", "clip_c", "clip_pg_rho"), POSITIVE)
        rules |= {"upgo_coef": (NOT_NEGATIVE[0], "zero or more, or None"), "td_lambda": (SHARE[0], "in [0, 1], or None for V-trace")}
        check_numbers(self, "impala.Config", rules)


class State(NamedTuple):
    """Everything a run is: saving it is saving the run. A pytree of arrays, so plain `jit`, `scan` and `vmap` take it."""

    packed: Packed
    opt_state: PyTree
    playing: Playing
    num_updates: Int32[Array, ""]
    key: PRNGKeyArray

    @property
    def model(self) -> Any:
        """The model as it was given to `init`, with today's weights."""
        return self.packed.model

    @property
    def policy(self) -> Any:
        """The same: what `rl.evaluate` and `act` take of any algorithm."""
        return self.model


def init(model: Model, env: AnyVecEnv, cfg: Config, *, key: PRNGKeyArray, opt: optax.GradientTransformation | None = None) -> State:
    """The state before the first update: all environments reset."""
    check_vec_env(env, "impala.init")
    check_model(model, env.single_observation_space, env.single_action_space)
    check_key(key, "impala.init")
    packed = pack(model)
    require(bool(packed.params), "impala.init: model", model, "a model with parameters", "None of its leaves is an array of floats.")
    key, begin_key = jax.random.split(key)
    opt_state = (opt or make_optimizer(cfg, 0)).init(packed.params)
    return State(packed, opt_state, begin(model, env, key=begin_key), jnp.zeros((), jnp.int32), key)


def make_optimizer(cfg: Config, num_updates: Int32[Array, ""] | int) -> optax.GradientTransformation:
    """Global-norm clipping and Adam, with the learning rate of this update."""
    return make_adam(value_at(cfg.lr, num_updates), cfg.adam_eps, cfg.max_grad_norm)


def collect(state: State, env: AnyVecEnv, cfg: Config) -> tuple[State, Rollout]:
    """Play `cfg.num_steps` steps in each environment, from where the last rollout ended.

    An actor elsewhere does the same with the weights that it has: `rl.collect.unroll(model, env, playing, num_steps, judged=False)`.
    """
    check_goes_on(state.playing, env)
    check_faults(state.playing.faults, env)
    if isinstance(env, GymVecEnv):
        key, play_key = jax.random.split(state.key)
        playing, rollout = play_on_host(state.packed, env, state.playing, cfg.num_steps, key=play_key, judged=False)
    else:
        playing, rollout, key = _collect_in_graph(state._replace(opt_state=None, num_updates=None), on_device(env), cfg.num_steps)
    return state._replace(playing=playing, key=key), rollout


@functools.partial(jax.jit, static_argnames="num_steps")
def _collect_in_graph(state, env, num_steps):
    key, play_key = jax.random.split(state.key)
    return *play_in_graph(state.packed, env, state.playing, num_steps, key=play_key, judged=False), key


def loss(model: Model, rollout: Rollout, cfg: Config) -> tuple[Float[Array, ""], Metrics]:
    """`policy_loss + vf_coef * value_loss - ent_coef * entropy`, means over valid steps, corrected for the policy that played."""
    (log_prob, entropy, value, _), next_value = revisit(model, rollout)
    next_value = jax.lax.stop_gradient(next_value)
    log_rho = jax.lax.stop_gradient(log_prob) - rollout.log_prob
    discount = jnp.where(rollout.terminated, 0.0, cfg.gamma)
    goes_on = jnp.where(rollout.terminated | rollout.truncated, 0.0, 1.0)
    seen = (rollout.reward, jax.lax.stop_gradient(value), next_value, discount)
    corrected = vtrace(log_rho, *seen, goes_on * cfg.trace_lambda, clip_rho=cfg.clip_rho, clip_c=cfg.clip_c, clip_pg_rho=cfg.clip_pg_rho)
    advantage, target = corrected.advantage, corrected.target
    if cfg.upgo_coef is not None:
        advantage += cfg.upgo_coef * jnp.minimum(1.0, jnp.exp(log_rho)) * upgo(*seen, goes_on)
    if cfg.td_lambda is not None:
        target = jax.lax.stop_gradient(lambda_returns(rollout.reward, next_value, discount, goes_on * cfg.td_lambda))

    def mean(x):
        return jnp.where(rollout.valid, x, 0.0).sum() / jnp.maximum(rollout.valid.sum(), 1)

    policy_loss, value_loss, entropy = -mean(advantage * log_prob), 0.5 * mean((target - value) ** 2), mean(entropy)
    total = policy_loss + cfg.vf_coef * value_loss - cfg.ent_coef * entropy
    return total, {
        "train/loss": total,
        "train/policy_loss": policy_loss,
        "train/value_loss": value_loss,
        "train/entropy": entropy,
        "train/mean_rho": mean(jnp.exp(log_rho)),
        "train/approx_kl": mean(jnp.exp(log_rho) - 1 - log_rho),  # of the policy that played and the one that learns
    }


def update(
    state: State,
    rollout: Rollout,
    cfg: Config,
    opt: optax.GradientTransformation | None = None,
    *,
    reduce: Callable[[PyTree], PyTree] = identity,
) -> tuple[State, Metrics]:
    """Improve the model by one gradient step on one rollout, whoever played it.

    `opt` replaces clipping, Adam and `cfg.lr` by an optimizer of your own; give the same one to `init`. `reduce` averages gradients and
    metrics over machines. If a loss or a gradient is not finite, nothing is learned from the rollout and `train/skipped` is 1.
    """
    fix = "Play it with rl.collect.unroll or impala.collect: DQN's rollouts on the host have none."
    require(rollout.log_prob is not None, "impala.update: rollout.log_prob", None, "the log-probabilities of its actions", fix)
    updated, metrics = _update(state._replace(playing=None), rollout, on_device(cfg), opt, reduce)
    return updated._replace(playing=state.playing), metrics


@functools.partial(jax.jit, static_argnames=("opt", "reduce"))
def _update(state, rollout, cfg, opt, reduce):
    check_optimizer("impala", opt or make_optimizer(cfg, 0), state.packed.params, state.opt_state, given=opt is not None)

    def of_params(params):
        total, metrics = loss(state.packed.with_params(params).model, rollout, cfg)
        return total, (metrics, None)

    step = gradient_step(of_params, state.packed.params, state.opt_state, opt or make_optimizer(cfg, state.num_updates), reduce)
    metrics = step.metrics | {"train/lr": jnp.asarray(value_at(cfg.lr, state.num_updates))}
    packed = state.packed.with_params(step.params)
    state = state._replace(packed=packed, opt_state=step.opt_state, num_updates=state.num_updates + 1)
    return state, {name: x.astype(jnp.float32) for name, x in metrics.items()}


def train(
    state: State, env: AnyVecEnv, cfg: Config, num_updates: int, opt: optax.GradientTransformation | None = None
) -> tuple[State, Metrics]:
    """`num_updates` times collect and update, as one compiled program for in-graph environments; metrics have an axis in front."""
    return run(collect, update, state, env, cfg, num_updates, opt)
