"""Q-learning without the loop around it: the loss, one gradient step, and the random numbers of a turn. For `dqn.py`, on both sides."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray, PyTree, UInt32

from rl4jax.collect.replay import importance_weights
from rl4jax.collect.transition import Transition
from rl4jax.core.schedule import value_at
from rl4jax.nn.packed import Packed
from rl4jax.nn.q_policy import QModel
from rl4jax.nn.target_network import polyak

from .loop import Metrics
from .optimizer import gradient_step, make_adam

Config = Any  # dqn.Config
MOST_STEPS = 2**31 - 1  # that are counted: after them epsilon stays where it is


def loss(
    model: QModel, target: QModel, batch: Transition, cfg: Config, weight: Float[Array, " N"] | float = 1.0
) -> tuple[Float[Array, ""], tuple[Metrics, Float[Array, " N"]]]:
    """`mean(weight * (Q(s, a) - y)^2)` with `y = reward + discount * max_a Q_target(s', a)`; also the errors, one per transition."""
    if not isinstance(batch, Transition):
        raise TypeError(f"dqn.loss: batch is a {type(batch).__name__}; it must be a Transition: replay.sample(...).items.")
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
    num_gradient_steps: Int32[Any, ""]  # NumPy's on the host


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
    target = packed.with_params(learner.target_params).model

    def of_params(params):
        return loss(packed.with_params(params).model, target, batch, cfg, weight)

    step = gradient_step(of_params, learner.params, learner.opt_state, opt or make_optimizer(cfg, num_updates), reduce)
    count, target_params = learner.num_gradient_steps + 1, learner.target_params
    if cfg.target_every:
        target_params = polyak(target_params, step.params, jnp.where(count % cfg.target_every == 0, cfg.tau, 0.0))
    return Learner(step.params, target_params, step.opt_state, count), step.extra, step.metrics


def make_optimizer(cfg: Config, num_updates: Int32[Array, ""] | int) -> optax.GradientTransformation:
    """Global-norm clipping, if asked for, and Adam, with the learning rate of this update."""
    return make_adam(value_at(cfg.lr, num_updates), cfg.adam_eps, cfg.max_grad_norm)


SUMMED = ("train/loss", "train/mean_q", "train/grad_norm", "train/skipped")
METRICS = (*SUMMED, "train/lr", "train/gradient_steps")


def no_sums() -> Metrics:
    return {name: jnp.zeros(()) for name in SUMMED}


def summarize(sums: Metrics, count: Int32[Array, ""], num_updates: Any, cfg: Config) -> Metrics:
    """The metrics of an update: means over its gradient steps, NaN if there were none."""
    metrics = {name: total if name == "train/skipped" else total / count for name, total in sums.items()}
    metrics |= {"train/lr": value_at(cfg.lr, num_updates), "train/gradient_steps": count}
    return {name: jnp.asarray(metrics[name], jnp.float32) for name in METRICS}


def epsilon_at(num_steps: Int32[Array, ""] | int, cfg: Config) -> Float[Array, ""]:
    return jnp.asarray(value_at(cfg.epsilon, num_steps), jnp.float32)


def play_key(key: PRNGKeyArray) -> PRNGKeyArray:
    """From the key of a turn, the half that plays; the other half samples."""
    return jax.random.split(key)[0]


def bits_of_update(key: PRNGKeyArray, shape: tuple[int, int]) -> UInt32[Array, "G N"]:
    return jax.random.bits(jax.random.split(key)[1], shape, jnp.uint32)
