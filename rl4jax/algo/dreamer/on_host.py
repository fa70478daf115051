"""Dreamer's `update` for environments on the host: stretches are drawn there, and each gradient step is a compiled call."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rl4jax.algo.loop import Metrics
from rl4jax.algo.optimizer import check_optimizer
from rl4jax.collect.rollout import Rollout

from .config import Config
from .learning import earned, keys_of_step, learn, make_optimizer, no_sums, summarize
from .ring import check_settings
from .stream import as_stream

State = Any  # dreamer.State


def update_on_host(state: State, rollout: Rollout, cfg: Config, opt: Any, reduce: Any) -> tuple[State, Metrics]:
    """Like `dreamer.update`, with a ring in the memory of the host, or on its disk."""
    check_optimizer("dreamer", opt or make_optimizer(cfg, 0), state.packed.params, state.opt_state, given=opt is not None)
    check_settings(state.replay, cfg, "dreamer.update")
    stream, real, last_reward = _as_stream(rollout, state.last_reward)
    replay = state.replay.add(stream, real)
    credit, count = earned(np.float32(state.credit), np.count_nonzero(rollout.valid), replay, cfg, np)
    key, learn_key = jax.random.split(state.key)
    learner, sums, before = state.learner, no_sums(), int(state.num_gradient_steps)
    for number in range(before, before + int(count)):
        sample_key, loss_key = keys_of_step(learn_key, number)
        replay, sequences = replay.sample_fresh(cfg.batch_size, 1 + cfg.length, key=sample_key)
        learner, latents, sums = _learn(learner, sequences.items, cfg, opt, reduce, np.int32(number), sums, loss_key)
        replay = replay.rewrite(sequences._replace(items=None, rows=sequences.rows[1:]), latent=latents)
    moved = {"replay": replay, "last_reward": last_reward, "credit": jnp.asarray(credit), "key": key}
    return state.learned(learner, **moved, num_gradient_steps=jnp.int32(before + int(count))), summarize(sums, count)


_as_stream = jax.jit(as_stream)


@functools.partial(jax.jit, static_argnames=("opt", "reduce"))
def _learn(learner, moments, cfg, opt, reduce, number, sums, key):
    learner, latents, metrics = learn(learner, moments, cfg, opt, reduce, number, key=key)
    return learner, latents, jax.tree.map(jnp.add, sums, metrics)
