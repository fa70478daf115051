"""Policy distillation (Hinton et al. 2015; Rusu et al. 2016): a student learns to choose as its teachers do, also among second choices.

The soft loss is `KL(teacher || student)` of both at a temperature, times its square, as in Hinton et al.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from rl4jax.core.contract import describe
from rl4jax.core.errors import ConfigError, ShapeError, require
from rl4jax.core.number import Number, is_concrete
from rl4jax.core.number_rules import NOT_NEGATIVE, POSITIVE, check_numbers
from rl4jax.core.schedule import Schedule, as_setting
from rl4jax.nn.distributions import AbstractDistribution, EpsilonGreedy, TanhNormal
from rl4jax.nn.model import Model, apply
from rl4jax.nn.packed import Packed, pack

from . import epochs
from .acting import act as act
from .closeness import closeness
from .epochs import State as State
from .loop import Metrics, identity


class Config(eqx.Module):
    """Settings. Whole numbers, switches and the held-out share are static; the others are leaves: a new value compiles nothing."""

    temperature: Number = 1.0  # of the soft loss: above 1 second choices count more
    soft_weight: Number = 1.0  # weight of the divergence from the teacher's distribution
    hard_weight: Number = 0.0  # weight of the cross-entropy with the teacher's choice
    t_squared: bool = eqx.field(default=True, static=True)  # the soft loss times temperature^2, so that its gradients keep their size
    value_weight: Number = 0.0  # weight of the squared error to the teacher's value
    lr: Number | Schedule = eqx.field(default=1e-3, converter=as_setting)  # learning rate; a schedule counts gradient steps
    batch_size: int = eqx.field(default=64, static=True)  # examples in each gradient step of an epoch
    holdout: float | int = eqx.field(default=0.1, static=True)  # share of the examples that epochs do not learn from, but are judged by
    max_grad_norm: Number = 0.5  # 0 = no clipping
    adam_eps: Number = 1e-5  # Adam's epsilon

    def __check_init__(self):
        epochs.check_settings(self, "distill.Config")
        weights = ("soft_weight", "hard_weight", "value_weight")
        check_numbers(self, "distill.Config", {"temperature": POSITIVE} | dict.fromkeys(weights, NOT_NEGATIVE))
        given = [getattr(self, name) for name in weights]
        if all(is_concrete(x) for x in given):
            require(bool(np.any(sum(given))), f"distill.Config: {', '.join(weights)}", tuple(given), "positive, at least one of them")


class Targets(NamedTuple):
    """What a teacher chooses and expects at N observations: arrays `[N, ...]`, those inside the distribution too."""

    obs: PyTree
    mask: Bool[Array, "N A"] | None  # allowed actions
    pi: AbstractDistribution
    value: Float[Array, " N"]


def label(teacher: Model, obs: PyTree, mask: Bool[Array | np.ndarray, "N A"] | None = None) -> Targets:
    """The teacher's distributions and values at observations `[N, ...]`, detached: no gradient goes back into it.

    The observations may come from anyone: rollouts of the teacher show what it is good at, those of the student where it errs. Of a
    Q-network the targets are its best choices, whatever its epsilon.
    """
    epochs.count("distill.label: (obs, mask)", (obs, mask))
    pi = epochs.check_memoryless("distill.label: teacher", teacher, obs)
    if not all(isinstance(x, jax.ShapeDtypeStruct) or eqx.is_array_like(x) for x in jax.tree.leaves(pi)):
        raise ConfigError(
            f"distill.label: the {type(pi).__name__} of {type(teacher).__name__} has a head that holds something else than arrays, which "
            f"cannot be written down once per observation. Make such fields static: eqx.field(static=True)."
        )
    return _label(pack(teacher), obs, mask)


@jax.jit
def _label(packed: Packed, obs: PyTree, mask: Bool[Array, "N A"] | None) -> Targets:
    def one(seen):
        pi, value, _ = apply(packed.model, seen[0], None, seen[1])
        if isinstance(pi, EpsilonGreedy):  # what it does at random teaches nothing
            pi = EpsilonGreedy(pi.q_values, jnp.zeros(()), pi.allowed).categorical()
        return jax.tree.map(jnp.asarray, (pi, value))

    pi, value = jax.lax.map(one, (obs, mask), batch_size=epochs.AT_ONCE)
    return jax.lax.stop_gradient(Targets(obs, mask, pi, value))


def merge(targets: Sequence[Targets]) -> Targets:
    """The targets of several teachers as those of one: the student learns from each where it was asked."""
    several = not isinstance(targets, Targets)
    require(several, "distill.merge: targets", "Targets of one teacher", "a list of those of several", "There is nothing to merge.")
    return epochs.concatenate("distill.merge: targets", targets)


def init(student: Model, targets: Targets, cfg: Config, *, key: PRNGKeyArray, opt: optax.GradientTransformation | None = None) -> State:
    """The state before the first step; raises unless student and teacher have the same actions."""
    epochs.count("distill.init: targets", targets)
    epochs.check_learner("distill.init: student", student, targets.obs)
    first = jax.tree.map(lambda x: x[0], targets)
    jax.eval_shape(lambda: compare(student, first, cfg))  # first is no argument, so that the bounds of continuous actions can be compared
    _check_one_box(targets.pi)
    return epochs.begin("distill", student, cfg, key=key, opt=opt)


def _check_one_box(pi: AbstractDistribution) -> None:
    """Raise unless the bounds of continuous actions are the same in all targets: several teachers may have different ones."""
    boxed = [part for part in jax.tree.leaves(pi, is_leaf=_is_boxed) if _is_boxed(part)]
    for name, bound in ((name, getattr(part, name)) for part in boxed for name in ("low", "high")):
        if is_concrete(bound) and (np.asarray(bound) != np.asarray(bound)[0]).any():
            raise ShapeError(f"distill.init: targets.pi.{name} differs from teacher to teacher. All must have the same action space.")


def _is_boxed(x: Any) -> bool:
    return isinstance(x, TanhNormal)


class Comparison(NamedTuple):
    """Student and teacher at one observation."""

    soft: Float[Array, "*N"]  # divergence, at the temperature
    hard: Float[Array, "*N"]  # minus the log-probability of the teacher's choice
    value: Float[Array, "*N"]  # squared error
    chosen: PyTree  # by the student
    wanted: PyTree  # by the teacher


def compare(student: Model, target: Targets, cfg: Config) -> Comparison:
    """The terms of the loss for one observation."""
    pi, value, _ = apply(student, target.obs, None, target.mask)
    wanted, chosen = target.pi.mode(), pi.mode()
    if describe(wanted) != describe(chosen) or target.pi.mask_size != pi.mask_size:
        forms = [f"{type(x).__name__} of {x.mask_size}, actions {describe(x.mode())}" for x in (target.pi, pi)]
        raise ShapeError(f"distill: the teacher has a {forms[0]}; the student a {forms[1]}. Both must have the same action space.")
    soft = target.pi.tempered(cfg.temperature).kl(pi.tempered(cfg.temperature), wanted)
    return Comparison(soft, -pi.log_prob(wanted), jnp.square(value - target.value), chosen, wanted)


def loss(student: Model, targets: Targets, cfg: Config) -> tuple[Float[Array, ""], Metrics]:
    """`soft_weight * T^2 KL(teacher_T || student_T) - hard_weight * log student(teacher's choice) + value_weight * (value error)^2`.

    All three are means over the observations; the factor T^2 is there with `t_squared` only.
    """
    epochs.refuse_memory("distill.loss: student", student)
    each = jax.vmap(lambda target: compare(student, target, cfg))(jax.lax.stop_gradient(targets))
    soft = each.soft.mean() * (jnp.square(cfg.temperature) if cfg.t_squared else 1.0)
    hard, value = each.hard.mean(), each.value.mean()
    total = cfg.soft_weight * soft + cfg.hard_weight * hard + cfg.value_weight * value
    losses = {"train/loss": total, "train/soft_loss": soft, "train/hard_loss": hard, "train/value_loss": value}
    return total, losses | closeness("agreement", each.chosen, each.wanted)


def update(
    state: State,
    batch: Targets,
    cfg: Config,
    opt: optax.GradientTransformation | None = None,
    *,
    reduce: Callable[[PyTree], PyTree] = identity,
) -> tuple[State, Metrics]:
    """One gradient step of the student on one batch, for a loop of your own.

    `opt` replaces clipping, Adam and `cfg.lr` by an optimizer of your own; give the same one to `init`. `reduce` averages gradients and
    metrics over machines. If the loss or a gradient is not finite, nothing is learned from the batch and `train/skipped` is 1.
    """
    return epochs.update("distill", loss, state, batch, cfg, opt, reduce)


def train(
    state: State, targets: Targets, cfg: Config, num_epochs: int, opt: optax.GradientTransformation | None = None
) -> tuple[State, Metrics]:
    """`num_epochs` passes over the targets, shuffled, as one compiled program; metrics have an axis of epochs in front.

    `cfg.holdout` of them are never learned from; after each epoch they give `eval/loss` and `eval/agreement`, the share of observations at
    which student and teacher choose the same. Which ones depends on their number only, so that `train` can be called again.
    """
    return epochs.train("distill", loss, state, targets, cfg, num_epochs, opt)
