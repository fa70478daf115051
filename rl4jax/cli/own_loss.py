"""The loss that a run learns by, and something to learn from: what `rl4jax doctor` looks at."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rl4jax.algo import dqn, dreamer, epochs, impala, ppo
from rl4jax.collect.transition import Transition, fold
from rl4jax.nn.model import Model, apply

from .errors import RunFailed
from .imitation import Imitation
from .run import AbstractRun

MOST_EXAMPLES = 1024


class OwnLoss(NamedTuple):
    """`loss(model, *args)`, and the same of what the model is not meant to learn by it."""

    loss: Callable[..., Any]
    model: Any
    args: tuple[Any, ...]
    spared: Callable[[Model], Any] | None = None


def own_loss(run: AbstractRun, state: Any) -> OwnLoss:
    """The loss of a run on one more rollout, or on the examples that it has. The run stays as it is."""
    if isinstance(run, Imitation):
        size = min(MOST_EXAMPLES, epochs.count("examples", run.examples))
        batch = epochs.take(run.examples, jnp.arange(size))
        spared = (lambda model: values_of(model, batch)) if run.algorithm.name == "bc" else None
        return OwnLoss(run.algorithm.module.loss, state.model, (batch, run.cfg), spared)
    return {"ppo": of_ppo, "dqn": of_dqn, "impala": of_impala, "dreamer": of_dreamer}[run.algorithm.name](run, state)


def of_ppo(run: AbstractRun, state: ppo.State) -> OwnLoss:
    state, rollout = ppo.collect(state, run.env, run.cfg)
    return OwnLoss(ppo.loss, state.model, ppo.loss_args(state, rollout, run.cfg))


def of_impala(run: AbstractRun, state: impala.State) -> OwnLoss:
    state, rollout = impala.collect(state, run.env, run.cfg)
    return OwnLoss(impala.loss, state.model, (jax.tree.map(jnp.asarray, rollout), run.cfg))


def of_dqn(run: AbstractRun, state: dqn.State) -> OwnLoss:
    """A batch of what the network does now: the memory of a run may be on its disk, and stays untouched."""
    num_steps = run.cfg.n_step + -(-run.cfg.batch_size // run.env.num_envs)
    state, rollout = dqn.collect(state, run.env, dataclasses.replace(run.cfg, num_steps=num_steps))
    assert state.window is not None
    _, transitions, valid = fold(state.window, rollout, run.cfg.n_step, run.cfg.gamma, np if run.on_host else jnp)
    real = np.flatnonzero(np.asarray(valid))
    if not len(real):
        raise RunFailed(f"{run.path}: {num_steps} steps gave no transition to learn from: all of them were cut off.")
    batch: Transition = jax.tree.map(lambda x: jnp.asarray(x)[real], transitions)
    return OwnLoss(dqn.loss, state.model, (state.target, batch, run.cfg))


def of_dreamer(run: AbstractRun, state: dreamer.State) -> OwnLoss:
    """A batch of what it remembers, or would if it had played more."""
    if not state.replay.num_stretches(1 + run.cfg.length):
        raise RunFailed(f"{run.path}: it remembers less than one stretch of {1 + run.cfg.length} steps, so there is nothing to learn from.")
    sample_key, loss_key = jax.random.split(state.key)
    moments = jax.tree.map(jnp.asarray, state.replay.sample(run.cfg.batch_size, 1 + run.cfg.length, key=sample_key).items)

    def loss(model, slow_value, moments, normalizer, cfg):
        return dreamer.loss(model, slow_value, moments, normalizer, cfg, key=loss_key)

    return OwnLoss(loss, state.model, (state.slow_value.model, moments, state.normalizer, run.cfg.after(state.num_gradient_steps)))


def values_of(model: Model, batch: Any) -> Any:
    """What a clone has from nobody: its expert showed actions only."""
    return jax.vmap(lambda example: apply(model, example.obs, None, example.mask)[1])(batch).sum()
