"""What teaches latents to hold what was seen: to paint it again, or to be told apart by it. Values for `dreamer.Agent(representation=)`."""

from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rl4jax.core.errors import is_number, require
from rl4jax.core.number import Number
from rl4jax.gradients import safe
from rl4jax.nn.distributions.categorical import log_softmax
from rl4jax.nn.obs_decoder import ObsDecoder
from rl4jax.nn.rssm import as_one_batch
from rl4jax.nn.truncated_normal import truncated_weights

from .looking import Seen
from .sizes import Size
from .stream import Moment

Agent = Any  # dreamer.Agent, under construction


class Representation(eqx.Module):
    """What an agent is built with: `representation(agent, space, size, key=)`. This one adds nothing: only rewards and ends teach."""

    def __init__(self, agent: Agent, space: gymnasium.Space, size: Size, *, key: PRNGKeyArray):
        pass

    def loss(self, agent: Agent, moments: Moment, seen: Seen, *, key: PRNGKeyArray) -> Float[Array, ""]:
        """The mean over steps of stretches `[1 + L, N]`, of which `seen` is what the world model made."""
        return jnp.zeros(())

    def after_step(self, agent: Agent) -> "Representation":
        """The same after a gradient step, for what follows slowly or has to keep a form."""
        return self


class Decoder(Representation):
    """DreamerV3: the observation painted from the latent.

    `blur`, in pixels, is ours: with it pictures are compared blurred, too, so that latents of small things that are near each other are
    alike, and what is learned of one place is expected in the next.
    """

    decoder: ObsDecoder

    def __init__(self, agent: Agent, space: gymnasium.Space, size: Size, blur: float = 0.0, *, key: PRNGKeyArray):
        self.decoder = ObsDecoder(space, agent.rssm, size.units, size.depth, blur, key=key)

    def loss(self, agent: Agent, moments: Moment, seen: Seen, *, key: PRNGKeyArray) -> Float[Array, ""]:
        """Mean over steps of `ObsDecoder.loss`."""
        return as_one_batch(self.decoder.loss)(seen.latents, seen.moments.obs).mean()


class Projection(eqx.Module):
    """Features of a latent in the space of the encoder's tokens: one matrix."""

    weight: Float[Array, "F E"]

    def __init__(self, agent: Agent, *, key: PRNGKeyArray):
        d_in, d_out = agent.rssm.d_features, agent.encoder.d_out
        self.weight = truncated_weights(key, (d_in, d_out), d_in)

    def __call__(self, seen: Seen) -> tuple[Float[Array, "M E"], Float[Array, "M E"]]:
        """Of all steps together, and the tokens, which are held constant: the encoder learns by way of the latents alone."""
        features = seen.latents.features
        tokens = jax.lax.stop_gradient(seen.tokens)
        return (features @ self.weight).reshape(-1, tokens.shape[-1]), tokens.reshape(-1, tokens.shape[-1])


class BarlowTwins(Representation):
    """R2-Dreamer (Morihira et al. 2026): latents predict each token by itself, and no two of their features say the same."""

    projection: Projection
    weight: float = eqx.field(static=True)
    off_diagonal: float = eqx.field(static=True)

    def __init__(
        self, agent: Agent, space: gymnasium.Space, size: Size, weight: float = 0.05, off_diagonal: float = 5e-4, *, key: PRNGKeyArray
    ):
        for name, x in (("weight", weight), ("off_diagonal", off_diagonal)):
            require(is_number(x) and x >= 0, f"BarlowTwins: {name}", x, "zero or more")
        self.projection, self.weight, self.off_diagonal = Projection(agent, key=key), float(weight), float(off_diagonal)

    def loss(self, agent: Agent, moments: Moment, seen: Seen, *, key: PRNGKeyArray) -> Float[Array, ""]:
        return self.weight * barlow_twins_loss(*self.projection(seen), self.off_diagonal)


class InfoNCE(Representation):
    """Contrastive: by its latent each step finds its own tokens among those of all steps."""

    projection: Projection
    weight: float = eqx.field(static=True)

    def __init__(self, agent: Agent, space: gymnasium.Space, size: Size, weight: float = 1.0, *, key: PRNGKeyArray):
        require(is_number(weight) and weight >= 0, "InfoNCE: weight", weight, "zero or more")
        self.projection, self.weight = Projection(agent, key=key), float(weight)

    def loss(self, agent: Agent, moments: Moment, seen: Seen, *, key: PRNGKeyArray) -> Float[Array, ""]:
        return self.weight * info_nce_loss(*self.projection(seen))


def barlow_twins_loss(x: Float[Array, "M E"], y: Float[Array, "M E"], off_diagonal: Number = 5e-4) -> Float[Array, ""]:
    """`sum_i (C_ii - 1)^2 + off_diagonal * sum_{i != j} C_ij^2` of the correlations C between the columns of x and y."""
    correlation = standardized(x).T @ standardized(y) / len(x)
    on = jnp.square(jnp.diagonal(correlation) - 1).sum()
    return on + off_diagonal * (jnp.square(correlation).sum() - jnp.square(jnp.diagonal(correlation)).sum())


def standardized(x: Float[Array, "M E"]) -> Float[Array, "M E"]:
    """Columns of mean 0 and deviation 1; one that does not vary stays 0, with a finite gradient."""
    centred = x - x.mean(0)
    variance = jnp.square(centred).sum(0) / (len(x) - 1)
    return centred / (safe.sqrt(variance) + 1e-8)


def info_nce_loss(x: Float[Array, "M E"], y: Float[Array, "M E"]) -> Float[Array, ""]:
    """The cross-entropy of finding row i of y by row i of x, by their products."""
    return -jnp.diagonal(log_softmax(x @ y.T)).mean()
