"""Supervised learning from a fixed set of examples, whatever the loss: a gradient step, whole epochs, a share that is held out."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int32, PRNGKeyArray, PyTree

from rl4jax.core.contract import check_key, describe
from rl4jax.core.errors import ConfigError, ShapeError, is_count, require
from rl4jax.core.number_rules import CLIP, POSITIVE, RATE, check_counts, check_numbers
from rl4jax.core.on_device import on_device
from rl4jax.core.schedule import value_at
from rl4jax.nn.distributions import AbstractDistribution, EpsilonGreedy
from rl4jax.nn.model import Model, initial_carry
from rl4jax.nn.model_check import check_answer
from rl4jax.nn.packed import Packed, pack

from .loop import Metrics, identity
from .minibatch import random_order
from .optimizer import check_optimizer, gradient_step, make_adam

Loss = Callable[[Model, Any, Any], tuple[Float[Array, ""], Metrics]]  # of model, batch and config; metrics are means over the batch
Reduce = Callable[[PyTree], PyTree]  # averages gradients and metrics over machines
T = TypeVar("T")

AT_ONCE = 1024  # examples that a model judges in one go, so that memory does not grow with the data


def check_settings(cfg: Any, name: str) -> None:
    """Raise unless the settings that every algorithm of this kind has are within their range."""
    check_counts(cfg, name, "batch_size")
    check_numbers(cfg, name, {"lr": RATE, "max_grad_norm": CLIP, "adam_eps": POSITIVE})
    share = isinstance(cfg.holdout, float | int) and 0 <= cfg.holdout < 1
    require(share, f"{name}.holdout", cfg.holdout, "a share in [0, 1)", "0 holds nothing out.")


class State(NamedTuple):
    """Everything a run is: saving it is saving the run. A pytree of arrays, so plain `jit`, `scan` and `vmap` take it."""

    packed: Packed
    opt_state: PyTree
    num_updates: Int32[Array, ""]  # gradient steps
    key: PRNGKeyArray

    @property
    def model(self) -> Any:
        """The model as it was given to `init`, with today's weights."""
        return self.packed.model

    @property
    def policy(self) -> Any:
        """The same: what `rl.evaluate` and `act` take of any algorithm."""
        return self.model


def begin(name: str, model: Model, cfg: Any, *, key: PRNGKeyArray, opt: optax.GradientTransformation | None) -> State:
    """The state before the first step."""
    check_key(key, f"{name}.init")
    packed = pack(model)
    require(bool(packed.params), f"{name}.init: model", model, "a model with parameters", "None of its leaves is an array of floats.")
    return State(packed, (opt or make_optimizer(cfg, 0)).init(packed.params), jnp.zeros((), jnp.int32), key)


def make_optimizer(cfg: Any, num_updates: Int32[Array, ""] | int) -> optax.GradientTransformation:
    """Global-norm clipping and Adam, with the learning rate of this step."""
    return make_adam(value_at(cfg.lr, num_updates), cfg.adam_eps, cfg.max_grad_norm)


def update(
    name: str, loss: Loss, state: State, batch: PyTree, cfg: Any, opt: optax.GradientTransformation | None, reduce: Reduce
) -> tuple[State, Metrics]:
    """One gradient step on a batch."""
    count(f"{name}.update: batch", batch)
    return _update(state, batch, on_device(cfg), name, loss, opt, reduce)


@functools.partial(jax.jit, static_argnames=("name", "loss", "opt", "reduce"))
def _update(state, batch, cfg, name, loss, opt, reduce):
    check_optimizer(name, opt or make_optimizer(cfg, 0), state.packed.params, state.opt_state, given=opt is not None)
    return step(loss, state, batch, cfg, opt, reduce)


def step(
    loss: Loss, state: State, batch: PyTree, cfg: Any, opt: optax.GradientTransformation | None, reduce: Reduce = identity
) -> tuple[State, Metrics]:
    """The state after a gradient step, or the same weights and moments if something is not finite: `train/skipped` is then 1."""

    def of_params(params):
        total, metrics = loss(state.packed.with_params(params).model, batch, cfg)
        return total, (metrics, None)

    done = gradient_step(of_params, state.packed.params, state.opt_state, opt or make_optimizer(cfg, state.num_updates), reduce)
    metrics = done.metrics | {"train/lr": value_at(cfg.lr, state.num_updates)}
    packed = state.packed.with_params(done.params)
    state = state._replace(packed=packed, opt_state=done.opt_state, num_updates=state.num_updates + 1)
    return state, {name: jnp.asarray(x, jnp.float32) for name, x in metrics.items()}


def train(
    name: str, loss: Loss, state: State, data: PyTree, cfg: Any, num_epochs: int, opt: optax.GradientTransformation | None
) -> tuple[State, Metrics]:
    """`num_epochs` times all examples but the held-out ones, in another order each time, as one compiled program."""
    require(is_count(num_epochs), f"{name}.train: num_epochs", num_epochs, "a positive integer")
    num_held_out(count(f"{name}.train: data", data), cfg.holdout)
    return _train(state, data, on_device(cfg), name, loss, num_epochs, opt)


@functools.partial(jax.jit, static_argnames=("name", "loss", "num_epochs", "opt"))
def _train(state, data, cfg, name, loss, num_epochs, opt):
    check_optimizer(name, opt or make_optimizer(cfg, 0), state.packed.params, state.opt_state, given=opt is not None)
    learned, held_out = split(count(f"{name}.train: data", data), cfg.holdout)
    unseen = take(data, held_out)

    def epoch(state, _):
        key, order_key = jax.random.split(state.key)
        chosen = learned[in_batches(len(learned), cfg.batch_size, order_key)]
        state, steps = jax.lax.scan(lambda s, i: step(loss, s, take(data, i), cfg, opt), state._replace(key=key), chosen)
        went = steps["train/skipped"] == 0
        metrics = {name: x.mean(where=went) for name, x in steps.items()} | {"train/skipped": steps["train/skipped"].sum()}
        return state, metrics | (evaluate(loss, state.model, unseen, cfg) if len(held_out) else {})

    return jax.lax.scan(epoch, state, length=num_epochs)


def num_held_out(num_examples: int, holdout: float | int) -> int:
    """How many examples are held out: at least one, unless the share is 0."""
    held_out = max(round(num_examples * holdout), 1) if holdout else 0
    if held_out >= num_examples:
        raise ConfigError(f"holdout = {holdout} leaves nothing to learn from: there are {num_examples} examples. Use holdout=0.")
    return held_out


def split(num_examples: int, holdout: float | int) -> tuple[Int32[Array, " L"], Int32[Array, " H"]]:
    """Which examples to learn from and which to hold out: random ones, the same at every call, so that none of them is ever learned."""
    order, held_out = random_order(num_examples, jax.random.key(0)), num_held_out(num_examples, holdout)
    return order[held_out:], order[:held_out]


def in_batches(n: int, batch_size: int, key: PRNGKeyArray) -> Int32[Array, "M S"]:
    """0 to n-1 in a random order, cut into batches. The last one is filled up with others, so that all steps weigh the same."""
    order, size = random_order(n, key), min(batch_size, n)
    num_batches = -(-n // size)
    return jnp.concatenate([order, order[: num_batches * size - n]]).reshape(num_batches, size)


def take(examples: T, chosen: Int32[Array, "..."]) -> T:
    """The chosen ones of `[N, ...]` examples."""
    return jax.tree.map(lambda x: jnp.asarray(x)[chosen], examples)


def evaluate(loss: Loss, model: Model, examples: PyTree, cfg: Any) -> Metrics:
    """The metrics of the loss over all examples, as `eval/...`. They are means, so those of batches of one can be averaged."""
    one = lambda example: loss(model, jax.tree.map(lambda x: x[None], example), cfg)[1]  # noqa: E731
    metrics = jax.lax.map(one, examples, batch_size=AT_ONCE)
    return {name.replace("train/", "eval/"): x.mean() for name, x in metrics.items()}


def count(name: str, examples: PyTree) -> int:
    """The number of examples, once it is known that all arrays have it in front."""
    leaves = jax.tree.leaves(examples)
    sizes = {jnp.shape(x)[0] if jnp.ndim(x) else None for x in leaves}
    if len(sizes) != 1 or None in sizes or 0 in sizes:
        raise ShapeError(f"{name} is {describe(examples)}; all its arrays must have the same number of examples in front, at least one.")
    return jnp.shape(leaves[0])[0]


def concatenate(name: str, parts: Sequence[T]) -> T:
    """All examples of several parts that are alike."""
    require(len(parts) > 0, name, parts, "at least one")
    forms = [describe(jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), part)) for part in parts]
    for i, form in enumerate(forms):
        if form != forms[0] or jax.tree.structure(parts[i]) != jax.tree.structure(parts[0]):
            raise ShapeError(f"{name}[{i}] has examples {form}; they must be like those of the first, {forms[0]}.")
    return jax.tree.map(lambda *x: jnp.concatenate(x), *parts)


def check_memoryless(name: str, model: Model, obs: PyTree) -> AbstractDistribution:
    """The form of the model's distribution for one of the observations `[N, ...]`, once it is known to give one without a memory."""
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x)[1:], jnp.result_type(x)), obs)
    try:
        pi, _, _ = check_answer(model, one)
    except ShapeError as error:
        fix = "The observations must be [N, ...]: of a rollout [T, B, ...], x.reshape(-1, *x.shape[2:]) or bc.from_rollouts."
        raise ShapeError(f"{name}: {type(model).__name__} cannot take one of the observations, {describe(one)}: {error} {fix}") from error
    refuse_memory(name, model)
    return pi


def check_learner(name: str, model: Model, obs: PyTree) -> AbstractDistribution:
    """The same of a model that is to learn probabilities, which a Q-network has not."""
    pi = check_memoryless(name, model, obs)
    if isinstance(pi, EpsilonGreedy):
        raise ConfigError(f"{name}: {type(model).__name__} chooses by values and has no probabilities to learn. Use rl.nn.ActorCritic.")
    return pi


def refuse_memory(name: str, model: Model) -> None:
    """Raise if the model is recurrent."""
    if initial_carry(model) is not None:
        raise ConfigError(
            f"{name}: {type(model).__name__} is recurrent, and examples are single steps, from which no memory can be learned. "
            f"Use a feed-forward model, such as rl.nn.ActorCritic(env, key=key), with rl.FrameStack if one observation is not enough."
        )
