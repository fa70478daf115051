"""Proximal policy optimisation (Schulman et al. 2017), for every action space, feed-forward or recurrent, with or without masks.

The reference is CleanRL's `ppo.py`, whose defaults these are. Differs from it: a truncated episode is bootstrapped from its last
observation; `target_kl` looks at the whole last epoch; the learning rate is constant unless a schedule is given.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray, PyTree

from rl4jax.collect.play import play_in_graph, play_on_host
from rl4jax.collect.playing import AnyVecEnv, Playing, begin, check_faults, check_goes_on
from rl4jax.collect.returns import gae
from rl4jax.collect.revisit import reconsider
from rl4jax.collect.reward_scale import RewardScale
from rl4jax.collect.rollout import Rollout
from rl4jax.core.contract import check_key
from rl4jax.core.errors import ConfigError, require
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.number import Number
from rl4jax.core.number_rules import CLIP, NOT_NEGATIVE, POSITIVE, RATE, SHARE, check_counts, check_numbers
from rl4jax.core.on_device import on_device
from rl4jax.core.running_stats import RunningStats
from rl4jax.core.schedule import Schedule, as_setting, value_at
from rl4jax.core.vec_env import check_vec_env
from rl4jax.gradients.finite import all_finite, keep_if
from rl4jax.nn.model import Model, Normalized, initial_carry
from rl4jax.nn.model_check import check_model
from rl4jax.nn.packed import Packed, pack

from .acting import act as act
from .loop import Metrics, identity, run
from .minibatch import check_minibatches, pick, random_order
from .optimizer import check_optimizer, make_adam


class Config(eqx.Module):
    """Settings. Whole numbers and switches are static; the others are leaves: `vmap` over them works, a new value compiles nothing."""

    lr: Number | Schedule = eqx.field(default=2.5e-4, converter=as_setting)  # learning rate; a schedule counts updates
    gamma: Number = 0.99  # discount
    gae_lambda: Number = 0.95  # trust in the critic: 0 looks one step ahead, 1 to the end of the episode
    clip_eps: Number = 0.2  # how far the ratio of probabilities may move from 1
    vf_coef: Number = 0.5  # weight of the value loss
    ent_coef: Number = 0.01  # weight of the entropy bonus
    update_epochs: int = eqx.field(default=4, static=True)  # passes over each rollout
    num_minibatches: int = eqx.field(default=4, static=True)  # parts of each pass
    num_steps: int = eqx.field(default=128, static=True)  # T, per environment and rollout
    clip_vloss: bool = eqx.field(default=True, static=True)  # clip the value loss too
    max_grad_norm: Number = 0.5  # 0 = no clipping
    adam_eps: Number = 1e-5  # Adam's epsilon
    normalize_advantage: bool = eqx.field(default=True, static=True)  # per minibatch
    normalize_obs: bool = eqx.field(default=False, static=True)  # by running statistics
    normalize_reward: bool = eqx.field(default=False, static=True)  # by the running spread of discounted returns
    target_kl: Number | None = None  # stop the epochs of an update once the policy moved so far
    dual_clip_coef: Number | None = None  # Ye et al. 2020: a floor for the objective where the advantage is negative

    def __check_init__(self):
        check_counts(self, "ppo.Config", "update_epochs", "num_minibatches", "num_steps")
        rules = {"lr": RATE, "gamma": SHARE, "gae_lambda": SHARE, "clip_eps": POSITIVE, "vf_coef": NOT_NEGATIVE, "ent_coef": NOT_NEGATIVE}
        rules |= {"max_grad_norm": CLIP, "adam_eps": POSITIVE, "target_kl": (lambda x: x > 0, "positive, or None for no early stop")}
        dual = (lambda x: x > 1, "greater than 1 (the paper uses 3), or None for no dual clipping")
        check_numbers(self, "ppo.Config", rules | {"dual_clip_coef": dual})


class State(NamedTuple):
    """Everything a run is: saving it is saving the run. A pytree of arrays, so plain `jit`, `scan` and `vmap` take it."""

    packed: Packed
    opt_state: PyTree
    playing: Playing
    obs_stats: RunningStats | None
    reward_scale: RewardScale | None
    num_updates: Int32[Array, ""]
    key: PRNGKeyArray

    @property
    def model(self) -> Any:
        """The model as it was given to `init`, with today's weights."""
        return self.packed.model

    @property
    def policy(self) -> Any:
        """The model for raw observations: with `normalize_obs`, behind its (frozen) statistics."""
        return self.model if self.obs_stats is None else Normalized(self.model, self.obs_stats.freeze())


def init(model: Model, env: AnyVecEnv, cfg: Config, *, key: PRNGKeyArray, opt: optax.GradientTransformation | None = None) -> State:
    """The state before the first update: all environments reset."""
    check_vec_env(env, "ppo.init")
    check_model(model, env.single_observation_space, env.single_action_space)
    check_minibatches(cfg.num_steps, env.num_envs, cfg.num_minibatches, recurrent=initial_carry(model) is not None)
    check_key(key, "ppo.init")
    packed = pack(model)
    require(bool(packed.params), "ppo.init: model", model, "a model with parameters", "None of its leaves is an array of floats.")
    key, begin_key = jax.random.split(key)
    playing = begin(model, env, key=begin_key)
    one_obs = jax.tree.map(lambda x: x[0], playing.obs)
    return State(
        packed=packed,
        opt_state=(opt or make_optimizer(cfg, 0)).init(packed.params),
        playing=playing,
        obs_stats=RunningStats.like(one_obs) if cfg.normalize_obs else None,
        reward_scale=RewardScale.of(env.num_envs) if cfg.normalize_reward else None,
        num_updates=jnp.zeros((), jnp.int32),
        key=key,
    )


def make_optimizer(cfg: Config, num_updates: Int32[Array, ""] | int) -> optax.GradientTransformation:
    """Global-norm clipping and Adam, with the learning rate of this update."""
    return make_adam(value_at(cfg.lr, num_updates), cfg.adam_eps, cfg.max_grad_norm)


def collect(state: State, env: AnyVecEnv, cfg: Config) -> tuple[State, Rollout]:
    """Play `cfg.num_steps` steps in each environment, from where the last rollout ended."""
    check_goes_on(state.playing, env)
    check_faults(state.playing.faults, env)
    if isinstance(env, GymVecEnv):
        key, play_key = jax.random.split(state.key)
        packed = state.packed if state.obs_stats is None else pack(state.policy)
        playing, rollout = play_on_host(packed, env, state.playing, cfg.num_steps, key=play_key)
    else:  # the optimizer stays here: each array that goes in and out of a compiled program costs some microseconds
        playing, rollout, key = _collect_in_graph(state._replace(opt_state=None, num_updates=None), on_device(env), cfg.num_steps)
    return state._replace(playing=playing, key=key), rollout


@functools.partial(jax.jit, static_argnames="num_steps")
def _collect_in_graph(state, env, num_steps):
    key, play_key = jax.random.split(state.key)
    return *play_in_graph(pack(state.policy), env, state.playing, num_steps, key=play_key), key


class Batch(NamedTuple):
    """What the loss sees: `[N, ...]`, or `[T, M, ...]` for M whole columns of a recurrent model."""

    obs: PyTree
    action: PyTree
    mask: Bool[Array, "*N A"] | None
    log_prob: Float[Array, "*N"]  # of the policy that played
    value: Float[Array, "*N"]  # likewise
    advantage: Float[Array, "*N"]
    target: Float[Array, "*N"]  # of the value
    valid: Bool[Array, "*N"]
    is_first: Bool[Array, "*N"]
    privileged: PyTree = None  # what only a critic may see


def loss(model: Model, batch: Batch, cfg: Config, carry: PyTree = None) -> tuple[Float[Array, ""], Metrics]:
    """Clipped surrogate, value and entropy: `policy_loss + vf_coef * value_loss - ent_coef * entropy`, means over valid steps.

    `loss_args` gives what it takes beside the model, for a whole rollout.
    """
    if not isinstance(batch, Batch):
        fix = "Of a whole rollout: ppo.loss(state.model, *ppo.loss_args(state, rollout, cfg))."
        raise TypeError(f"ppo.loss: batch is a {type(batch).__name__}; it must be a ppo.Batch, with advantages. {fix}")
    log_prob, entropy, value, _ = reconsider(model, batch, carry)
    count = jnp.maximum(batch.valid.sum(), 1)  # a minibatch may hold nothing but dead slots

    def means(*terms):  # one sum for all of them: on a CPU each takes longer to start than to run
        total = jnp.where(batch.valid, jnp.stack(terms), 0.0).sum(tuple(range(1, batch.valid.ndim + 1)))
        return total / count

    advantage = batch.advantage
    if cfg.normalize_advantage:
        centred = advantage - means(advantage)[0]
        variance = means(centred**2)[0] * count / jnp.maximum(count - 1, 1)  # of a sample, as in PyTorch
        advantage = centred / (jnp.sqrt(variance) + 1e-8)

    log_ratio = log_prob - batch.log_prob
    ratio = jnp.exp(log_ratio)
    objective = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - cfg.clip_eps, 1 + cfg.clip_eps) * advantage)
    if cfg.dual_clip_coef is not None:
        objective = jnp.maximum(objective, cfg.dual_clip_coef * jnp.minimum(advantage, 0.0))

    value_error = (value - batch.target) ** 2
    if cfg.clip_vloss:
        clipped = batch.value + jnp.clip(value - batch.value, -cfg.clip_eps, cfg.clip_eps)
        value_error = jnp.maximum(value_error, (clipped - batch.target) ** 2)

    approx_kl = ratio - 1 - log_ratio  # k3 of Schulman 2020: unbiased, never negative
    is_clipped = (jnp.abs(ratio - 1) > cfg.clip_eps).astype(jnp.float32)
    objective, value_error, entropy, approx_kl, clip_fraction = means(objective, value_error, entropy, approx_kl, is_clipped)
    policy_loss, value_loss = -objective, 0.5 * value_error
    total = policy_loss + cfg.vf_coef * value_loss - cfg.ent_coef * entropy
    return total, {
        "train/loss": total,
        "train/policy_loss": policy_loss,
        "train/value_loss": value_loss,
        "train/entropy": entropy,
        "train/approx_kl": approx_kl,
        "train/clip_fraction": clip_fraction,
    }


def loss_args(state: State, rollout: Rollout, cfg: Config) -> tuple[Batch, Config, PyTree]:
    """What `loss` takes beside the model, of a whole rollout: `loss(state.model, *loss_args(state, rollout, cfg))`.

    It is what `update` sees before its first step, as one minibatch; memories of a recurrent model go along.
    """
    batch, _ = prepare(state, jax.tree.map(jnp.asarray, rollout), cfg)
    num_steps, num_envs = rollout.reward.shape
    batch, carry = pick(batch, rollout.carry, jnp.arange(num_steps * num_envs if rollout.carry is None else num_envs))
    return batch, cfg, carry


def update(
    state: State,
    rollout: Rollout,
    cfg: Config,
    opt: optax.GradientTransformation | None = None,
    *,
    reduce: Callable[[PyTree], PyTree] = identity,
) -> tuple[State, Metrics]:
    """Improve the model on one rollout: `update_epochs` passes over it in `num_minibatches` shuffled parts.

    `opt` replaces clipping, Adam and `cfg.lr` by an optimizer of your own; give the same one to `init`. `reduce` averages gradients and
    metrics over machines. If a loss or a gradient is not finite, nothing is learned from the rollout and `train/skipped` is 1.
    """
    updated, metrics = _update(state._replace(playing=None), rollout, on_device(cfg), opt, reduce)
    return updated._replace(playing=state.playing), metrics


@functools.partial(jax.jit, static_argnames=("opt", "reduce"))
def _update(state, rollout, cfg, opt, reduce):
    check_fits(state, cfg, opt)
    key, shuffle_key = jax.random.split(state.key)
    batch, learned_stats = prepare(state, rollout, cfg)
    num_steps, num_envs = rollout.reward.shape
    check_minibatches(num_steps, num_envs, cfg.num_minibatches, recurrent=rollout.carry is not None)
    optimizer = opt or make_optimizer(cfg, state.num_updates)

    def step(learner, chosen):
        params, opt_state = learner
        minibatch, carry = pick(batch, rollout.carry, chosen)
        of_params = lambda p: loss(state.packed.with_params(p).model, minibatch, cfg, carry)  # noqa: E731
        grads, metrics = reduce(jax.grad(of_params, has_aux=True)(params))
        changes, opt_state = optimizer.update(grads, opt_state, params)
        norm = optax.tree.norm(ravel_pytree(grads)[0])  # as in our optimizer, so that it is computed once
        return (optax.apply_updates(params, changes), opt_state), metrics | {"train/grad_norm": norm}

    def epoch(carry, epoch_key):
        learner, kl = carry
        order = random_order(num_envs if rollout.carry is not None else num_steps * num_envs, epoch_key)
        run = functools.partial(jax.lax.scan, step, learner, order.reshape(cfg.num_minibatches, -1))
        if cfg.target_kl is None:
            learner, metrics = run()
            return (learner, kl), (metrics, True)
        go_on = kl <= cfg.target_kl
        nothing = jax.tree.map(jnp.zeros_like, jax.eval_shape(run)[1])
        learner, metrics = jax.lax.cond(go_on, run, lambda: (learner, nothing))
        return (learner, jnp.where(go_on, metrics["train/approx_kl"].mean(), kl)), (metrics, go_on)

    before = (state.packed.params, state.opt_state)
    (after, _), (metrics, ran) = jax.lax.scan(epoch, (before, jnp.zeros(())), jax.random.split(shuffle_key, cfg.update_epochs))

    finite = all_finite((metrics["train/loss"], metrics["train/grad_norm"], after[0]))
    old_stats = (state.obs_stats, state.reward_scale)
    (params, opt_state), stats = keep_if(finite, (after, learned_stats), (before, old_stats))
    metrics = {name: x.mean(1).sum(0, where=ran) / ran.sum() for name, x in metrics.items()} | {
        "train/explained_variance": explained_variance(batch),
        "train/lr": jnp.asarray(value_at(cfg.lr, state.num_updates)),
        "train/epochs": ran.sum(),
        "train/skipped": 1 - finite,
    }
    state = state._replace(
        packed=state.packed.with_params(params),
        opt_state=opt_state,
        obs_stats=stats[0],
        reward_scale=stats[1],
        num_updates=state.num_updates + 1,
        key=key,
    )
    return state, {name: x.astype(jnp.float32) for name, x in metrics.items()}


def prepare(state: State, rollout: Rollout, cfg: Config) -> tuple[Batch, tuple]:
    """The rollout as the loss needs it, `[T, B]`, and the statistics as they are after it."""
    obs, reward, obs_stats, reward_scale = rollout.obs, rollout.reward, state.obs_stats, state.reward_scale
    if reward_scale is not None:
        reward, reward_scale = reward_scale.apply(rollout, cfg.gamma)
    if obs_stats is not None:  # with the statistics that the policy played with: the ratio begins at 1
        obs, obs_stats = obs_stats.normalize(obs), obs_stats.update(obs, rollout.valid)
    if rollout.value is None or rollout.next_value is None:
        raise ConfigError("ppo.update: rollout has no values, so ppo.collect did not make it. Use that, or rl.collect.unroll.")
    discount = jnp.where(rollout.terminated, 0.0, cfg.gamma)
    trace = jnp.where(rollout.terminated | rollout.truncated, 0.0, cfg.gae_lambda)
    advantage = gae(reward, rollout.value, rollout.next_value, discount, trace)
    batch = Batch(
        obs, rollout.action, rollout.mask, rollout.log_prob, rollout.value,
        advantage=advantage, target=advantage + rollout.value, valid=rollout.valid, is_first=rollout.is_first,
        privileged=rollout.privileged,
    )  # fmt: skip
    return jax.lax.stop_gradient(batch), (obs_stats, reward_scale)


def check_fits(state: State, cfg: Config, opt: optax.GradientTransformation | None) -> None:
    """Raise unless the state was begun with these settings and this optimizer, as far as their shapes tell. When compiling only."""
    for name, had in (("normalize_obs", state.obs_stats is not None), ("normalize_reward", state.reward_scale is not None)):
        asked = getattr(cfg, name)
        require(asked == had, f"ppo.update: cfg.{name}", asked, f"{had}, as it was for ppo.init", "Give all verbs the same Config.")
    check_optimizer("ppo", opt or make_optimizer(cfg, 0), state.packed.params, state.opt_state, given=opt is not None)


def explained_variance(batch: Batch) -> Float[Array, ""]:
    """How much of the returns the critic foresaw: 1 all, 0 no more than a constant, below 0 worse than that."""
    return 1 - jnp.var(batch.target - batch.value, where=batch.valid) / jnp.var(batch.target, where=batch.valid)


def train(
    state: State, env: AnyVecEnv, cfg: Config, num_updates: int, opt: optax.GradientTransformation | None = None
) -> tuple[State, Metrics]:
    """`num_updates` times collect and update, as one compiled program for in-graph environments; metrics have an axis in front."""
    return run(collect, update, state, env, cfg, num_updates, opt)
