"""Gradient steps of Dreamer: all networks at once, by one loss and one optimizer."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int32, PRNGKeyArray, PyTree

from rl4jax.algo.loop import Metrics
from rl4jax.algo.optimizer import gradient_step
from rl4jax.collect.percentile_normalizer import PercentileNormalizer
from rl4jax.core.schedule import value_at
from rl4jax.gradients.finite import keep_if
from rl4jax.nn.packed import Packed, pack
from rl4jax.nn.target_network import polyak

from .agent import Agent
from .behaviour import actor_critic_loss
from .config import Config
from .laprop import clip_by_weight, scale_by_laprop
from .stream import Moment, StoredLatent, stored
from .world_model import world_model_loss

METRICS = (
    "train/kl_loss", "train/reward_loss", "train/continue_loss", "train/representation_loss", "train/kl",
    "train/policy_loss", "train/value_loss", "train/replay_value_loss", "train/entropy", "train/imagined_return", "train/return_scale",
    "train/loss", "train/grad_norm", "train/skipped",
)  # fmt: skip

PERCENTILES = ("low_return", "high_return")  # of the dreams of all machines, if there are several: averaged as metrics are


class Learner(NamedTuple):
    """What a gradient step changes."""

    packed: Packed
    slow_value: Packed
    opt_state: PyTree
    normalizer: PercentileNormalizer


def make_optimizer(cfg: Config, num_gradient_steps: Int32[Array, ""] | int) -> optax.GradientTransformation:
    """Clipping by the norm of the weights, then LaProp, with the learning rate of this gradient step."""
    rate = optax.scale_by_learning_rate(value_at(cfg.lr, num_gradient_steps))
    return optax.chain(clip_by_weight(cfg.clip), optax.flatten(scale_by_laprop(b2=cfg.b2)), rate)


def loss(
    model: Agent, slow_value: Any, moments: Moment, normalizer: PercentileNormalizer, cfg: Config, *, key: PRNGKeyArray
) -> tuple[Float[Array, ""], tuple[Metrics, tuple[PercentileNormalizer, StoredLatent]]]:
    """All losses together, as one optimizer sees them; also the metrics, the normalizer and the latents of the steps.

    If `cfg` has schedules, give `cfg.after(num_gradient_steps)`.
    """
    world_key, behaviour_key = jax.random.split(key)
    world_loss, (world_metrics, seen) = world_model_loss(model, moments, cfg, key=world_key)
    behaviour_loss, (metrics, normalizer) = actor_critic_loss(model, slow_value, seen, normalizer, cfg, key=behaviour_key)
    total = world_loss + behaviour_loss
    return total, (world_metrics | metrics | {"train/loss": total}, (normalizer, stored(seen.latents)))


def learn(
    learner: Learner, moments: Moment, cfg: Config, opt: Any, reduce: Callable[[PyTree], PyTree], number: Any, *, key: PRNGKeyArray
) -> tuple[Learner, StoredLatent, Metrics]:
    """A gradient step on stretches `[1 + L, N]`; also the latents of their last L steps, for the next time they are learned from.

    If something is not finite, everything is as it was.
    """
    cfg = cfg.after(number)

    def of_params(params):
        model, slow_value = learner.packed.with_params(params).model, learner.slow_value.model
        total, (metrics, (normalizer, latents)) = loss(model, slow_value, moments, learner.normalizer, cfg, key=key)
        percentiles = {name: getattr(normalizer, name) for name in PERCENTILES}
        return total, (metrics | percentiles, (normalizer, latents))

    done = gradient_step(of_params, learner.packed.params, learner.opt_state, opt or make_optimizer(cfg, number), reduce)
    normalizer, latents = done.extra
    normalizer = normalizer._replace(**{name: done.metrics.pop(name) for name in PERCENTILES})
    model = learner.packed.with_params(done.params).model
    model = eqx.tree_at(lambda x: x.representation, model, model.representation.after_step(model))
    slow_value = pack(polyak(learner.slow_value.model, model.value, cfg.slow_rate))
    after = Learner(pack(model), slow_value, done.opt_state, normalizer), latents
    before = learner, jax.tree.map(lambda x: x[1:], moments.latent)
    made = done.metrics["train/skipped"] == 0
    metrics = {name: x if name == "train/skipped" else jnp.where(made, x, 0.0) for name, x in done.metrics.items()}
    return *keep_if(made, after, before), metrics


def earned(credit: Any, num_steps: Any, replay: Any, cfg: Config, xp: Any) -> tuple[Any, Any]:
    """What is left of the gradient steps that were earned so far and with these steps, and how many whole ones there are to make."""
    ready = (replay.size >= cfg.learning_starts) & (replay.num_stretches(1 + cfg.length) > 0)
    credit = xp.where(ready, credit + cfg.train_ratio * num_steps / (cfg.batch_size * cfg.length), 0.0).astype(xp.float32)
    count = xp.floor(credit).astype(xp.int32)
    return credit - count, count


def keys_of_step(key: PRNGKeyArray, number: Int32[Array, ""] | int) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """For the drawing of stretches, and for the loss."""
    sample_key, loss_key = jax.random.split(jax.random.fold_in(key, number))
    return sample_key, loss_key


def no_sums() -> dict[str, Float[Array, ""]]:
    """Of the metrics of gradient steps, before there is one."""
    return {name: jnp.zeros(()) for name in METRICS}


def summarize(sums: dict[str, Float[Array, ""]], count: Any) -> Metrics:
    """Means over the gradient steps that were made, NaN if there were none; how many there were in all, and how many were skipped."""
    count = jnp.asarray(count, jnp.float32)
    made = count - sums["train/skipped"]
    metrics = {name: total if name == "train/skipped" else total / made for name, total in sums.items()}
    return metrics | {"train/gradient_steps": count}
