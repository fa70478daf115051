"""An observation from a latent, and how far it is from the real one."""

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from rl4jax.core.spaces import StaticSpace, mask_heads

from .distributions.categorical import log_softmax
from .obs_encoder import NUM_LAYERS, choices, split_obs, split_space, vector_of
from .pixel_stages import USUAL, PixelDecoder
from .readout import Readout
from .rssm import RSSM, Latent
from .symlog import symexp


class ObsDecoder(eqx.Module):
    """What `ObsEncoder` saw, from a latent: numbers as symlogs, choices as logits, pictures with pixels in (0, 1)."""

    vector: Readout | None
    pixels: dict[str, PixelDecoder]
    space: StaticSpace = eqx.field(static=True)

    def __init__(self, space: gymnasium.Space, rssm: RSSM, units: int, depth: int, most_pixels: int = USUAL, *, key: PRNGKeyArray):
        images, rest = split_space(space)
        vector_key, *keys = jax.random.split(key, 1 + len(images))
        size, d_stoch, num_blocks = int(spaces.flatdim(rest)), rssm.groups * rssm.classes, len(rssm.mix.weight)
        d_deter = rssm.d_features - d_stoch
        self.vector = Readout(rssm.d_features, size, units, NUM_LAYERS, key=vector_key) if size else None
        self.pixels = {
            name: PixelDecoder(d_deter, d_stoch, image.shape, depth, units, num_blocks, most_pixels, key=k)
            for (name, image), k in zip(images.items(), keys, strict=True)
        }
        self.space = StaticSpace(space)

    def loss(self, latent: Latent, obs: PyTree) -> Float[Array, ""]:
        """Squared errors, summed over numbers and pixels, and of choices the cross-entropy."""
        images, rest = split_obs(self.space.space, obs)
        total = jnp.zeros(())
        if self.vector is not None:
            space = split_space(self.space.space)[1]
            said, true = self.vector(latent.features), vector_of(space, rest)
            total += jnp.where(choices(space), 0.0, (said - true) ** 2).sum()
            total -= sum((log_softmax(said[head]) * true[head]).sum() for head in mask_heads(space))
        for name, decode in self.pixels.items():
            total += ((self._paint(decode, latent) - images[name]) ** 2).sum()
        return total

    def images(self, latent: Latent) -> dict[str, Float[Array, "A B C"]]:
        """The pictures by the name of their part; one without a name is called ""."""
        return {name: self._paint(decode, latent) for name, decode in self.pixels.items()}

    def numbers(self, latent: Latent) -> Float[Array, " V"]:
        """All other parts in a row, in their own units; choices as probabilities."""
        if self.vector is None:
            return jnp.zeros(0)
        space, said = split_space(self.space.space)[1], self.vector(latent.features)
        chances = said
        for head in mask_heads(space):
            chances = chances.at[head].set(jnp.exp(log_softmax(said[head])))
        return jnp.where(choices(space), chances, symexp(said))

    def _paint(self, decode: PixelDecoder, latent: Latent) -> Float[Array, "A B C"]:
        return decode(latent.deter, latent.stoch.ravel())
