"""Rollouts as streams of steps, the way world models learn from them: a reward belongs to what it arrived with."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree, UInt8

from rl4jax.collect.rollout import Rollout
from rl4jax.nn.rssm import Latent


class StoredLatent(NamedTuple):
    """A latent with the number of each drawn choice instead of one-hot rows."""

    deter: Float[Array, "*N D"]
    choice: UInt8[Array, "*N G"]


class Moment(NamedTuple):
    """One step of a stream. The last observation of an episode is a step of its own, after which nothing is done."""

    obs: PyTree
    action: Float[Array, "*N A"]  # what followed, as the world model takes it; zeros after the last observation
    reward: Float[Array, "*N"]  # what came with obs; 0 at the start of an episode
    is_first: Bool[Array, "*N"]
    is_last: Bool[Array, "*N"]  # the episode ended here, for either reason
    is_terminal: Bool[Array, "*N"]  # it really ended: nothing is to come
    latent: StoredLatent  # as it was when this was played, or last learned from


def as_stream(rollout: Rollout, last_reward: Float[Array, " B"]) -> tuple[Moment, Bool[Array, "S B"], Float[Array, " B"]]:
    """Two places for each step of the rollout, `[2 T, B]`: the step, and the last observation if an episode ended with it.

    Also which of them are real, and finite, and the reward that the next rollout's first step comes with. Where something was left out a
    new stretch begins: what follows did not come of what is before.
    """
    latent, vectors = rollout.memory  # of an agent: what it made of each observation, and what it did then
    latents = stored(latent)
    arrived = jnp.concatenate([last_reward[None], rollout.reward[:-1]])
    no = jnp.zeros_like(rollout.valid)
    ended = (rollout.terminated | rollout.truncated) & rollout.valid
    steps = Moment(rollout.obs, vectors, jnp.where(rollout.is_first, 0.0, arrived), rollout.is_first, no, no, latents)
    unknown = jax.tree.map(jnp.zeros_like, latents)  # never needed: a first step follows, which forgets it
    lasts = Moment(rollout.next_obs, jnp.zeros_like(vectors), rollout.reward, no, ended, rollout.terminated, unknown)
    stream, real = jax.tree.map(_interleave, (steps, rollout.valid), (lasts, ended))
    kept = real & _is_finite(stream)
    left_out = jnp.cumsum(real & ~kept, 0)
    known = jax.lax.cummax(jnp.where(kept, left_out, 0))  # how many had been left out when the last step before was kept
    is_gap = left_out > jnp.concatenate([jnp.zeros_like(known[:1]), known[:-1]])
    goes_on = kept[-2] | ~rollout.valid[-1]
    return stream._replace(is_first=stream.is_first | is_gap), kept, jnp.where(goes_on, rollout.reward[-1], jnp.nan)


def _is_finite(stream: Moment) -> Bool[Array, "S B"]:
    """What is not would spoil whatever is learned from it, long after the environment was mended. So would what an agent made of it."""
    seen_and_done = (stream.obs, stream.action, stream.reward, stream.latent.deter)
    floats = [x for x in jax.tree.leaves(seen_and_done) if jnp.issubdtype(x.dtype, jnp.floating)]
    return jnp.stack([jnp.isfinite(x).reshape(*x.shape[:2], -1).all(-1) for x in floats]).all(0)


def _interleave(x: Any, y: Any) -> Any:
    return jnp.stack([x, y], 1).reshape(-1, *x.shape[1:])


def stored(latent: Latent) -> StoredLatent:
    """To keep."""
    return StoredLatent(latent.deter, latent.stoch.argmax(-1).astype(jnp.uint8))


def restored(latent: StoredLatent, num_classes: int) -> Latent:
    """To use."""
    return Latent(latent.deter, jax.nn.one_hot(latent.choice, num_classes))
