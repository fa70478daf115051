"""A policy told which strategy to play, and the reward for playing it (Vinyals et al. 2019, AlphaStar: the statistic z)."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Real

from rl4jax.core.errors import ShapeError, is_count, require
from rl4jax.gradients import safe

from .linear import Linear
from .orthogonal import VALUE_GAIN, orthogonal_linear


class ZConditioning(eqx.Module):
    """The observation followed by a linear embedding of z: `[obs, W z + b]`, of length `output_dim`.

    >>> import jax
    >>> condition = ZConditioning(z_dim=16, obs_dim=10, key=jax.random.key(0))
    >>> condition(jnp.zeros(10), jnp.zeros(16)).shape
    (74,)
    """

    embed: Linear
    obs_dim: int = eqx.field(static=True)

    def __init__(self, z_dim: int, obs_dim: int, hidden_dim: int = 64, *, key: PRNGKeyArray):
        for name, size in (("z_dim", z_dim), ("obs_dim", obs_dim), ("hidden_dim", hidden_dim)):
            require(is_count(size), f"ZConditioning: {name}", size, "a positive integer")
        self.embed = orthogonal_linear(z_dim, hidden_dim, VALUE_GAIN, key=key)
        self.obs_dim = obs_dim

    @property
    def output_dim(self) -> int:
        """The length of what comes out."""
        return self.obs_dim + self.embed.bias.shape[0]

    def __call__(self, obs: Float[Array, " D"], z: Float[Array, " Z"]) -> Float[Array, " O"]:
        wanted = (self.obs_dim,), self.embed.weight.shape[:1]
        if (obs.shape, z.shape) != wanted:
            raise ShapeError(
                f"ZConditioning: obs has shape {obs.shape} and z {z.shape}; they must be {wanted[0]} and {wanted[1]}. "
                f"For a batch use jax.vmap."
            )
        return jnp.concatenate([obs, self.embed(z)])


def z_reward(stats: Real[Array, "*B Z"], z: Real[Array, "*B Z"]) -> Float[Array, "*B"]:
    """`-|stats - z|`, the distance of what was played to what was asked for: 0 at best. Its gradient there is 0, not NaN.

    >>> print(z_reward(jnp.array([3.0, 4.0]), jnp.zeros(2)))
    -5.0
    """
    if stats.shape != z.shape or not stats.ndim:
        raise ShapeError(f"z_reward: stats has shape {stats.shape} and z {z.shape}; both must be the same, [..., Z].")
    stats, z = (jnp.asarray(x, jnp.result_type(x, jnp.float32)) for x in (stats, z))  # counts: unsigned ones would wrap below 0
    return -safe.norm(stats - z, -1)
