"""A convolutional encoder of images."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, Shaped

from rl4jax.core.errors import ShapeError

from .linear import Linear
from .orthogonal import orthogonal_conv, orthogonal_linear

NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # channels, kernel, stride: Mnih et al. 2015
SMALL = ((16, 3, 1), (32, 3, 1))  # for boards and other pictures of a few cells
NATURE_FROM = 36  # pixels: the least that the three layers above leave something of


class CNN(eqx.Module):
    """Features of one image: convolutions with ReLU, then one linear layer.

    Images of at least 36 pixels each way go through the layers of Mnih et al. 2015, smaller ones through two of 3 x 3. The channels are
    the first axis or the last, whichever is shorter; integer pixels are divided by 255.
    """

    convs: tuple[eqx.nn.Conv2d, ...]
    linear: Linear
    channels_last: bool = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], d_out: int = 512, *, key: PRNGKeyArray):
        if len(shape) != 3 or min(sorted(shape)[1:]) < 3:
            raise ShapeError(
                f"CNN: shape = {shape}; it must be (height, width, channels) or (channels, height, width), at least 3 pixels each way."
            )
        self.channels_last = shape[-1] <= shape[0]
        channels, *pixels = (shape[-1], *shape[:2]) if self.channels_last else shape
        plan = NATURE if min(pixels) >= NATURE_FROM else SMALL
        *conv_keys, linear_key = jax.random.split(key, len(plan) + 1)
        convs = []
        for (out, kernel, stride), conv_key in zip(plan, conv_keys, strict=True):
            padding = 0 if plan is NATURE else 1
            make_key, weight_key = jax.random.split(conv_key)
            convs.append(orthogonal_conv(eqx.nn.Conv2d(channels, out, kernel, stride, padding, key=make_key), key=weight_key))
            channels, pixels = out, [(p + 2 * padding - kernel) // stride + 1 for p in pixels]
        self.convs = tuple(convs)
        self.linear = orthogonal_linear(channels * pixels[0] * pixels[1], d_out, key=linear_key)

    def __call__(self, image: Shaped[Array, "A B C"]) -> Array:
        x = image / 255.0 if jnp.issubdtype(image.dtype, jnp.integer) else image
        x = jnp.moveaxis(x, -1, 0) if self.channels_last else x
        for conv in self.convs:
            x = jax.nn.relu(conv(x))
        return jax.nn.relu(self.linear(x.ravel()))
