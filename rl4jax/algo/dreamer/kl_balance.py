"""The divergence between what a world model expects and what it sees, pulled at from both sides with different strength."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rl4jax.core.number import Number
from rl4jax.nn.distributions.one_hots import OneHots


def kl_balanced_loss(
    posterior: OneHots, prior: OneHots, dyn_coef: Number = 1.0, rep_coef: Number = 0.1, free_nats: Number = 1.0
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """`dyn_coef * max(free, KL(sg post || prior)) + rep_coef * max(free, KL(post || sg prior))`, and the divergence itself.

    The first teaches the prior to expect what came, the second keeps what is seen predictable. Divergences are summed over groups before
    they are compared with the free nats: below them nothing is pulled.
    """
    dynamics, representation = dynamics_kl(posterior, prior), representation_kl(posterior, prior)
    loss = dyn_coef * jnp.maximum(free_nats, dynamics) + rep_coef * jnp.maximum(free_nats, representation)
    return loss, jax.lax.stop_gradient(dynamics)


def dynamics_kl(posterior: OneHots, prior: OneHots) -> Float[Array, ""]:
    """Of what was seen from what was expected: only what is expected learns."""
    return held(posterior).kl(prior)


def representation_kl(posterior: OneHots, prior: OneHots) -> Float[Array, ""]:
    """The same number: only what is seen learns."""
    return posterior.kl(held(prior))


def held(choices: OneHots) -> OneHots:
    """The same without a gradient. Its uniform share stays the number that it is: none at all is a case of its own."""
    return OneHots(jax.lax.stop_gradient(choices.logits), choices.unimix)
