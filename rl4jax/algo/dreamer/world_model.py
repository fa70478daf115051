"""How the world model learns: to expect what it then sees, and to read rewards and ends from it."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from rl4jax.nn.distributions.one_hots import OneHots
from rl4jax.nn.rssm import each

from .agent import Agent
from .kl_balance import kl_balanced_loss
from .looking import Seen, look
from .stream import Moment

Config = Any  # dreamer.Config
Metrics = dict[str, Float[Array, ""]]


def world_model_loss(agent: Agent, moments: Moment, cfg: Config, *, key: PRNGKeyArray) -> tuple[Float[Array, ""], tuple[Metrics, Seen]]:
    """KL divergences, rewards, ends and representation, means over steps; of stretches `[1 + L, N]` whose first step is only remembered."""
    look_key, representation_key = jax.random.split(key)
    seen, logits = look(agent, moments, key=look_key)
    prior_logits = each(lambda deter: agent.rssm.prior(deter).logits)(seen.latents.deter)

    def divergence(posterior, prior):
        unimix = agent.rssm.unimix
        return kl_balanced_loss(OneHots(posterior, unimix), OneHots(prior, unimix), cfg.dyn_coef, cfg.rep_coef, cfg.free_nats)

    def read(features, moment):
        goes_on = (1 - moment.is_terminal) * (1 - 1 / cfg.horizon)
        ends = optax.sigmoid_binary_cross_entropy(agent.goes_on_logit(features), goes_on)
        return agent.reward_of(features).loss(moment.reward), ends

    kl_loss, kl = each(divergence)(logits, prior_logits)
    reward_loss, goes_on_loss = each(read)(seen.latents.features, seen.moments._replace(obs=None, latent=None))
    losses = {
        "kl": kl_loss.mean(),
        "reward": reward_loss.mean(),
        "continue": goes_on_loss.mean(),
        "representation": agent.representation.loss(agent, moments, seen, key=representation_key),
    }
    total = losses["kl"] + losses["reward"] + losses["continue"] + cfg.representation_coef * losses["representation"]
    return total, ({f"train/{name}_loss": loss for name, loss in losses.items()} | {"train/kl": kl.mean()}, seen)


def is_cut_off(moments: Moment) -> PyTree:
    """Where an episode ended, or was given up: another one begins with the next step."""
    given_up = jnp.concatenate([moments.is_first[1:], jnp.zeros_like(moments.is_first[:1])])
    return moments.is_last | given_up
