"""Behavioral cloning (Pomerleau 1989): do as an expert did, by maximum likelihood, for every action space, with or without masks.

A clone is a start, not an end: it has not seen where its own mistakes lead to (Ross et al. 2011). PPO can go on from it.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from rl4jax.core.contract import describe
from rl4jax.core.errors import ShapeError
from rl4jax.core.number import Number, is_concrete
from rl4jax.core.schedule import Schedule, as_setting
from rl4jax.nn.model import Model, apply
from rl4jax.nn.packed import Packed, pack

from . import epochs
from .acting import act as act
from .closeness import closeness
from .demonstrations import Demonstrations as Demonstrations, from_arrays as from_arrays, from_rollouts as from_rollouts
from .epochs import State as State
from .loop import Metrics, identity
from .minari_data import from_minari as from_minari


class Config(eqx.Module):
    """Settings. Whole numbers and the held-out share are static; the others are leaves: a new value compiles nothing."""

    lr: Number | Schedule = eqx.field(default=1e-3, converter=as_setting)  # learning rate; a schedule counts gradient steps
    batch_size: int = eqx.field(default=64, static=True)  # examples in each gradient step of an epoch
    holdout: float | int = eqx.field(default=0.1, static=True)  # share of the examples that epochs do not learn from, but are judged by
    max_grad_norm: Number = 0.5  # 0 = no clipping
    adam_eps: Number = 1e-5  # Adam's epsilon

    def __check_init__(self):
        epochs.check_settings(self, "bc.Config")


def init(model: Model, data: Demonstrations, cfg: Config, *, key: PRNGKeyArray, opt: optax.GradientTransformation | None = None) -> State:
    """The state before the first step; raises unless the model can do what was done in each demonstration."""
    epochs.count("bc.init: data", data)
    pi = epochs.check_learner("bc.init: model", model, data.obs)
    wanted, done = describe(eqx.filter_eval_shape(lambda pi: pi.mode(), pi)), describe(jax.tree.map(lambda x: x[0], data.action))
    if wanted != done:
        raise ShapeError(
            f"bc.init: each action of data is {done}, but the {type(pi).__name__} of {type(model).__name__} chooses {wanted}. "
            f"Build the model for the expert's action space."
        )
    possible = _possible(pack(model), data)
    if is_concrete(possible) and not np.asarray(possible).all():
        bad = np.flatnonzero(~np.asarray(possible))
        raise ShapeError(
            f"bc.init: {len(bad)} of {len(possible)} actions of data cannot be chosen by {type(model).__name__}, the first at {bad[0]}: "
            f"{jax.tree.map(lambda x: np.asarray(x[bad[0]]).tolist(), data.action)}. It has no such choice, or the mask forbids it."
        )
    return epochs.begin("bc", model, cfg, key=key, opt=opt)


@jax.jit
def _possible(packed: Packed, data: Demonstrations) -> Bool[Array, " N"]:
    """Whether each action has a probability; continuous parts always have."""

    def one(example):
        pi, _, _ = apply(packed.model, example.obs, None, example.mask)
        choices = jax.tree.map(lambda done, mode: done if jnp.issubdtype(done.dtype, jnp.integer) else mode, example.action, pi.mode())
        return pi.log_prob(choices) > -1e8

    return jax.lax.map(one, data, batch_size=epochs.AT_ONCE)


def loss(model: Model, batch: Demonstrations, cfg: Config) -> tuple[Float[Array, ""], Metrics]:
    """`-mean log pi(action | obs)`: the cross-entropy of choices, summed over heads; of continuous actions the negative log-density."""
    epochs.refuse_memory("bc.loss: model", model)

    def one(example):
        pi, _, _ = apply(model, example.obs, None, example.mask)
        return pi.log_prob(example.action), pi.entropy(example.action), pi.mode()

    log_prob, entropy, chosen = jax.vmap(one)(batch)
    total = -log_prob.mean()
    return total, {"train/loss": total, "train/entropy": entropy.mean()} | closeness("accuracy", chosen, batch.action)


def update(
    state: State,
    batch: Demonstrations,
    cfg: Config,
    opt: optax.GradientTransformation | None = None,
    *,
    reduce: Callable[[PyTree], PyTree] = identity,
) -> tuple[State, Metrics]:
    """One gradient step on one batch, for a loop of your own.

    `opt` replaces clipping, Adam and `cfg.lr` by an optimizer of your own; give the same one to `init`. `reduce` averages gradients and
    metrics over machines. If the loss or a gradient is not finite, nothing is learned from the batch and `train/skipped` is 1.
    """
    return epochs.update("bc", loss, state, batch, cfg, opt, reduce)


def train(
    state: State, data: Demonstrations, cfg: Config, num_epochs: int, opt: optax.GradientTransformation | None = None
) -> tuple[State, Metrics]:
    """`num_epochs` passes over the data, shuffled, as one compiled program; metrics have an axis of epochs in front.

    `cfg.holdout` of the examples are never learned from; after each epoch they give `eval/loss` and `eval/accuracy`. Which ones depends
    on the number of examples only, so that `train` can be called again with the same data.
    """
    return epochs.train("bc", loss, state, data, cfg, num_epochs, opt)
