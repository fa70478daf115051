"""The optimizer that every algorithm uses unless it is given another, and a step with it."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from rl4jax.core.errors import ConfigError
from rl4jax.core.number import Number
from rl4jax.gradients.clip import clip_by_global_norm
from rl4jax.gradients.finite import all_finite, keep_if


def make_adam(lr: Number, eps: Number, max_grad_norm: Number) -> optax.GradientTransformation:
    """Global-norm clipping (0: none) and Adam.

    On all parameters as one vector: a CPU takes longer to start an operation on a small matrix than to run it.
    """
    clip = optax.stateless(lambda grads, _: clip_by_global_norm(grads, max_grad_norm)[0])
    return optax.flatten(optax.chain(clip, optax.scale_by_adam(eps=eps), optax.scale_by_learning_rate(lr)))


def check_optimizer(algorithm: str, optimizer: optax.GradientTransformation, params: PyTree, opt_state: PyTree, *, given: bool) -> None:
    """Raise unless the state of the optimizer was made by this one, as far as its structure tells. When compiling only."""
    if jax.tree.structure(jax.eval_shape(optimizer.init, params)) != jax.tree.structure(opt_state):
        begun = f"{algorithm}.init was given"
        what = f"opt is not the optimizer that {begun}" if given else f"opt is missing: {begun} one"
        raise ConfigError(f"{algorithm}.update: {what}. Give both the same: opt=opt.")


class Step(NamedTuple):
    """What a gradient step leads to."""

    params: PyTree
    opt_state: PyTree
    metrics: dict[str, Float[Array, ""]]  # those of the loss, `train/grad_norm` and `train/skipped`
    extra: PyTree  # what else the loss gave


def gradient_step(
    loss_of: Callable[[PyTree], tuple[Float[Array, ""], tuple[dict[str, Float[Array, ""]], PyTree]]],
    params: PyTree,
    opt_state: PyTree,
    optimizer: optax.GradientTransformation,
    reduce: Callable[[PyTree], PyTree],
) -> Step:
    """Weights and moments after a gradient step, or as they were if something is not finite: `train/skipped` is then 1.

    `loss_of` gives the loss, its metrics (with `train/loss`) and whatever else should come back; `reduce` averages gradients and metrics
    over machines.
    """
    grads, (metrics, extra) = jax.grad(loss_of, has_aux=True)(params)
    grads, metrics = reduce((grads, metrics))
    changes, new_opt_state = optimizer.update(grads, opt_state, params)
    norm = optax.tree.norm(ravel_pytree(grads)[0])  # as in our optimizer, so that it is computed once
    finite = all_finite((metrics["train/loss"], norm, ravel_pytree(changes)[0]))
    params, opt_state = keep_if(finite, (optax.apply_updates(params, changes), new_opt_state), (params, opt_state))
    return Step(params, opt_state, metrics | {"train/grad_norm": norm, "train/skipped": 1.0 - finite}, extra)
