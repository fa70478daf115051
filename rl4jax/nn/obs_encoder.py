"""What a world model sees of an observation: symlogs of its numbers, and features of its pictures."""

from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, Shaped

from rl4jax.core.errors import EnvError, ShapeError
from rl4jax.core.spaces import StaticSpace, flatten, mask_heads, parts_of

from .mlp import MLP
from .multi_encoder import UNBOUNDED, is_image
from .pixel_stages import PixelEncoder
from .symlog import symlog
from .truncated_normal import dense

NUM_LAYERS = 3


class ObsEncoder(eqx.Module):
    """One vector from an observation of any space, as in DreamerV3.

    `Box`es of three axes are pictures. Everything else is one vector, its choices one-hot and its numbers as symlogs, through three layers.
    """

    vector: MLP | None
    pixels: dict[str, PixelEncoder]
    space: StaticSpace = eqx.field(static=True)

    def __init__(self, space: gymnasium.Space, units: int, depth: int, *, key: PRNGKeyArray):
        images, rest = split_space(space)
        for image in images.values():
            if image.low.min() >= image.high.max():
                raise EnvError(f"ObsEncoder: pictures are {image}, of one value only; low must be less than high.")
        vector_key, *keys = jax.random.split(key, 1 + len(images))
        size = int(spaces.flatdim(rest))
        self.vector = dense(size, *(units,) * NUM_LAYERS, key=vector_key) if size else None
        self.pixels = {name: PixelEncoder(image.shape, depth, key=k) for (name, image), k in zip(images.items(), keys, strict=True)}
        self.space = StaticSpace(space)

    @property
    def d_out(self) -> int:
        """How many features come out."""
        return (0 if self.vector is None else self.vector.layers[-1].bias.size) + sum(x.d_out for x in self.pixels.values())

    def __call__(self, obs: PyTree) -> Float[Array, " E"]:
        return self.of_batch(jax.tree.map(lambda x: jnp.asarray(x)[None], obs))[0]

    def of_batch(self, obs: PyTree) -> Float[Array, "N E"]:
        """The same of observations `[N, ...]`: where there are pictures, faster to learn from than `jax.vmap`."""
        images, rest = split_obs(self.space.space, obs)
        seen = [encode(images[name]) for name, encode in self.pixels.items()]
        if self.vector is not None:
            vector, space = self.vector, split_space(self.space.space)[1]
            seen = [jax.vmap(lambda numbers: vector(vector_of(space, numbers)))(rest), *seen]
        return jnp.concatenate(seen, -1)


def split_space(space: gymnasium.Space) -> tuple[dict[str, Any], Any]:
    """The pictures among the parts of a space, and the other parts. A space without parts is one that is called ""."""
    parts = parts_of(space)
    images = {name: part for name, part in parts.items() if is_image(part)}
    return images, spaces.Dict({name: part for name, part in parts.items() if name not in images})


def split_obs(space: gymnasium.Space, obs: PyTree) -> tuple[dict[str, Array], dict[str, PyTree]]:
    """The same of an observation, pixels from 0 to 1."""
    images, rest = split_space(space)
    parts = parts_of(obs)
    for name, image in images.items():
        if parts[name].shape[-3:] != image.shape:
            of = f" {name!r}" if name else ""
            raise ShapeError(f"pictures{of} have shape {parts[name].shape}; by the observation space it must end in {image.shape}.")
    return {name: unit_pixels(image, parts[name]) for name, image in images.items()}, {name: parts[name] for name in rest}


def unit_pixels(space: spaces.Box, image: Shaped[Array, "*N A B C"]) -> Float[Array, "*N A B C"]:
    """What is between the bounds of the space, from 0 to 1; as it is if there are none."""
    low, high = float(space.low.min()), float(space.high.max())
    return (image - low) / (high - low) if is_bounded(space) else image.astype(jnp.float32)


def is_bounded(space: spaces.Box) -> bool:
    """Whether the bounds of a picture say something of its pixels."""
    return float(space.high.max()) - float(space.low.min()) < UNBOUNDED


def vector_of(space: Any, obs: dict[str, PyTree]) -> Float[Array, " V"]:
    """Everything in a row: choices one-hot, numbers as symlogs."""
    flat = flatten(space, obs)
    return jnp.where(choices(space), flat, symlog(flat))


def choices(space: Any) -> Bool[np.ndarray, " V"]:
    """Which places of the flat vector belong to a one-hot choice."""
    chosen = np.zeros(int(spaces.flatdim(space)), bool)
    for head in mask_heads(space):
        chosen[head] = True
    return chosen
