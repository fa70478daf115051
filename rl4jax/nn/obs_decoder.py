"""An observation from a latent, and how far it is from the real one."""

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from rl4jax.core.errors import EnvError, ShapeError, is_number, require
from rl4jax.core.spaces import StaticSpace, mask_heads

from .blur import blurred
from .distributions.categorical import log_softmax
from .obs_encoder import NUM_LAYERS, choices, is_bounded, split_obs, split_space, vector_of
from .pixel_stages import PixelDecoder
from .readout import Readout
from .rssm import RSSM, Latent
from .symlog import symexp


class ObsDecoder(eqx.Module):
    """What `ObsEncoder` saw, from a latent: numbers as symlogs, choices as logits, pictures with pixels in (0, 1).

    With a `blur` of some pixels the errors of pictures count once more, blurred: what is painted beside its place is then nearly right.
    """

    vector: Readout | None
    pixels: dict[str, PixelDecoder]
    space: StaticSpace = eqx.field(static=True)
    blur: float = eqx.field(static=True)

    def __init__(self, space: gymnasium.Space, rssm: RSSM, units: int, depth: int, blur: float = 0.0, *, key: PRNGKeyArray):
        images, rest = split_space(space)
        require(is_number(blur) and blur >= 0, "ObsDecoder: blur", blur, "a number of pixels, or 0 for none")
        if blur and not images:
            raise EnvError(f'ObsDecoder: observations are {space}; there is no picture to blur. Leave blur at 0: "decoder" of an agent.')
        for image in images.values():
            if not is_bounded(image):
                fix = "Give the space bounds, or teach the latents without a decoder, by dreamer.BarlowTwins."
                raise EnvError(f"ObsDecoder: pictures are {image}, without bounds; pixels are painted between them. {fix}")
        vector_key, *keys = jax.random.split(key, 1 + len(images))
        size, d_stoch, num_blocks = int(spaces.flatdim(rest)), rssm.groups * rssm.classes, len(rssm.mix.weight)
        d_deter = rssm.d_features - d_stoch
        self.vector = Readout(rssm.d_features, size, units, NUM_LAYERS, key=vector_key) if size else None
        self.pixels = {
            name: PixelDecoder(d_deter, d_stoch, image.shape, depth, units, num_blocks, key=k)
            for (name, image), k in zip(images.items(), keys, strict=True)
        }
        self.space, self.blur = StaticSpace(space), float(blur)

    def loss(self, latents: Latent, obs: PyTree) -> Float[Array, " N"]:
        """Of latents and observations `[N, ...]`: squared errors, summed over numbers and pixels, and of choices the cross-entropy."""
        num = {len(x) for x in jax.tree.leaves((latents, obs))}
        if len(num) > 1:
            raise ShapeError(f"ObsDecoder.loss: latents and observations are of {sorted(num)} steps; give as many of each, `[N, ...]`.")
        images, rest = split_obs(self.space.space, obs)
        total = jnp.zeros(len(latents.deter))
        if self.vector is not None:
            total += jax.vmap(self._vector_loss)(latents.features, rest)
        for name, decode in self.pixels.items():
            error = paint(decode, latents) - images[name]
            total += jnp.square(error).sum((1, 2, 3))
            if self.blur:
                total += jnp.square(blurred(error, self.blur, decode.channels_last)).sum((1, 2, 3))
        return total

    def _vector_loss(self, features: Float[Array, " F"], obs: PyTree) -> Float[Array, ""]:
        assert self.vector is not None
        space = split_space(self.space.space)[1]
        said, true = self.vector(features), vector_of(space, obs)
        squares = jnp.where(choices(space), 0.0, (said - true) ** 2).sum()
        return squares - sum((log_softmax(said[head]) * true[head]).sum() for head in mask_heads(space))

    def images(self, latent: Latent) -> dict[str, Float[Array, "A B C"]]:
        """The pictures by the name of their part; one without a name is called ""."""
        one = jax.tree.map(lambda x: x[None], latent)
        return {name: paint(decode, one)[0] for name, decode in self.pixels.items()}

    def numbers(self, latent: Latent) -> Float[Array, " V"]:
        """All other parts in a row, in their own units; choices as probabilities."""
        if self.vector is None:
            return jnp.zeros(0)
        space, said = split_space(self.space.space)[1], self.vector(latent.features)
        chances = said
        for head in mask_heads(space):
            chances = chances.at[head].set(jnp.exp(log_softmax(said[head])))
        return jnp.where(choices(space), chances, symexp(said))


def paint(decode: PixelDecoder, latents: Latent) -> Float[Array, "N A B C"]:
    """The pictures of latents `[N, ...]`."""
    return decode(latents.deter, latents.stoch.reshape(len(latents.stoch), -1))
