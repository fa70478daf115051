"""A variational auto-encoder whose latent can be kept small (Higgins et al. 2017, beta-VAE)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rl4jax.core.errors import is_count, require
from rl4jax.core.number import Number, is_concrete

from .distributions import Normal
from .input_check import check_input
from .linear import Linear
from .orthogonal import VALUE_GAIN, orthogonal_linear


class BetaVAE(eqx.Module):
    """A description of an opponent in a few numbers, from what is seen of it: one hidden ReLU layer each way.

    `encode(x)` is a `Normal` over latents, whose standard deviation is inside [e^-5, e^2]; `strategy_embedding(x)` is its mean, for a
    policy to look at. A larger `beta` wants a simpler latent: at first independent dimensions, then ones that say nothing.
    """

    encoder: Linear
    posterior: Linear
    decoder: Linear
    output: Linear
    beta: Number

    def __init__(self, d_in: int, *, key: PRNGKeyArray, latent_dim: int = 32, hidden_dim: int = 256, beta: Number = 1.0):
        for name, size in (("d_in", d_in), ("latent_dim", latent_dim), ("hidden_dim", hidden_dim)):
            require(is_count(size), f"BetaVAE: {name}", size, "a positive integer")
        if is_concrete(beta):
            fine = isinstance(beta, int | float | Array) and jnp.ndim(beta) == 0
            require(fine and bool(beta >= 0), "BetaVAE: beta", beta, "a number, zero or more")
            beta = float(beta)  # an array would be a parameter like others, to optimizers too
        keys = jax.random.split(key, 4)
        self.encoder = orthogonal_linear(d_in, hidden_dim, key=keys[0])
        self.posterior = orthogonal_linear(hidden_dim, 2 * latent_dim, VALUE_GAIN, key=keys[1])
        self.decoder = orthogonal_linear(latent_dim, hidden_dim, key=keys[2])
        self.output = orthogonal_linear(hidden_dim, d_in, VALUE_GAIN, key=keys[3])
        self.beta = beta

    def encode(self, x: Float[Array, "..."]) -> Normal:
        """The distribution over latents, given what is seen. The layer gives mean and log-variance."""
        check_input("BetaVAE: x", x, len(self.encoder.weight))
        mean, log_variance = self.posterior(jax.nn.relu(self.encoder(x))).reshape(2, -1)
        return Normal(mean, 0.5 * log_variance)

    def decode(self, z: Float[Array, "..."]) -> Float[Array, " D"]:
        """What a latent looks like."""
        check_input("BetaVAE: z", z, len(self.decoder.weight))
        return self.output(jax.nn.relu(self.decoder(z)))

    def strategy_embedding(self, x: Float[Array, "..."]) -> Float[Array, " Z"]:
        """The mean latent, without randomness."""
        return self.encode(x).mean

    def loss(self, x: Float[Array, "..."], *, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """`sum_d (decode(z) - x)^2 + beta * KL(encode(x) || Normal(0, 1))` for one x and one sampled z, and its terms as metrics."""
        posterior = self.encode(x)
        error = jnp.square(self.decode(posterior.sample(key)) - x).sum()
        kl = posterior.kl(Normal(jnp.zeros_like(posterior.mean), jnp.zeros(())))
        total = error + jax.lax.stop_gradient(self.beta) * kl  # a setting, not a weight: nothing learns it
        return total, {"train/loss": total, "train/reconstruction_loss": error, "train/kl": kl}
