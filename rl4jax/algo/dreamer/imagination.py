"""What would happen: a policy plays in the world model."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

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
    num = len(start.deter)
    latent_key, first_key, later_key = jax.random.split(key, 3)
    noise = jax.random.gumbel(latent_key, (horizon, num, rssm.groups, rssm.classes))

    def act(latents, key):
        return jax.vmap(lambda latent, key: policy(latent.features).sample(key))(latents, jax.random.split(key, num))

    def one(now, chance):
        latents, actions = now
        noise, key = chance
        latents = jax.vmap(rssm.imagine)(latents, jax.vmap(as_vector)(actions), noise)
        actions = act(latents, key)
        return (latents, actions), (latents, actions)

    begin = (start, act(start, first_key))
    _, later = jax.lax.scan(one, begin, (noise, jax.random.split(later_key, horizon)))
    return Imagined(*jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), begin, later))
