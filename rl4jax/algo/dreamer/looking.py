"""What the world model makes of stretches of steps."""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from rl4jax.nn.rssm import Latent, as_one_batch

from .stream import Moment, restored

Agent = Any  # dreamer.Agent, which knows representations, which look


class Seen(NamedTuple):
    """Stretches of a stream `[L, N, ...]`, and what the world model made of them."""

    moments: Moment
    tokens: Float[Array, "L N E"]
    latents: Latent


def look(agent: Agent, moments: Moment, *, key: PRNGKeyArray) -> tuple[Seen, Float[Array, "L N G K"]]:
    """Latents along stretches `[1 + L, N]` whose first step is only remembered; also the logits of their posteriors."""
    before = restored(jax.tree.map(lambda x: x[0], moments.latent), agent.rssm.classes)
    actions, moments = moments.action[:-1], jax.tree.map(lambda x: x[1:], moments)
    tokens = as_one_batch(agent.encoder.of_batch)(moments.obs)
    noise = jax.random.gumbel(key, (*moments.reward.shape, agent.rssm.groups, agent.rssm.classes))
    latents, logits = agent.rssm.observe(before, actions, tokens, moments.is_first, noise)
    return Seen(moments, tokens, latents), logits
