"""What would happen: a policy plays in the world model."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from rl4jax.core.contract import check_key
from rl4jax.core.errors import ShapeError, is_count, require
from rl4jax.nn.distributions import AbstractDistribution
from rl4jax.nn.rssm import RSSM, Latent


class Imagined(NamedTuple):
    """`horizon + 1` latents, the first of which are those it began with, and what is done in each."""

    latents: Latent  # [H + 1, N, ...]
    actions: PyTree[Array]  # [H + 1, N, ...]; the last ones lead nowhere


def imagine_rollout(
    rssm: RSSM,
    policy: Callable[[Float[Array, " F"]], AbstractDistribution],
    as_vector: Callable[[PyTree], Float[Array, " A"]],
    start: Latent,
    horizon: int,
    *,
    key: PRNGKeyArray,
) -> Imagined:
    """Follow a policy, `features -> distribution`, from each of N latents. `as_vector` makes of its actions what the world model takes."""
    require(is_count(horizon), "imagine_rollout: horizon", horizon, "a positive integer")
    check_key(key, "imagine_rollout")
    if start.deter.ndim != 2:
        raise ShapeError(
            f"imagine_rollout: start has a memory of shape {start.deter.shape}; it must be [N, D], of N latents to begin from."
        )
    num = len(start.deter)
    latent_key, action_key = jax.random.split(key)
    # All chance at once: a little cheaper than drawing it step by step.
    latent_noise = jax.random.gumbel(latent_key, (horizon, num, rssm.groups, rssm.classes))
    noise_of = eqx.filter_eval_shape(policy, start.features[0]).noise
    action_noise = jax.vmap(jax.vmap(noise_of))(jax.random.split(action_key, (horizon + 1, num)))

    def act(latents, noise):
        return jax.vmap(lambda latent, noise: policy(latent.features).sample_from(noise))(latents, noise)

    def one(now, chance):
        latents, actions = now
        latent_noise, action_noise = chance
        latents = jax.vmap(rssm.imagine)(latents, jax.vmap(as_vector)(actions), latent_noise)
        actions = act(latents, action_noise)
        return (latents, actions), (latents, actions)

    begin = (start, act(start, action_noise[0]))
    _, later = jax.lax.scan(one, begin, (latent_noise, action_noise[1:]))
    return Imagined(*jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), begin, later))
