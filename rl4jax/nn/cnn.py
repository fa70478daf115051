"""A convolutional encoder of images."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from rl4jax.core.errors import ShapeError, is_count, require

from .input_check import check_input
from .linear import Linear
from .orthogonal import HIDDEN_GAIN, orthogonal_conv, orthogonal_linear
from .pixel_conv import convolve

Layers = Sequence[tuple[int, ...]]  # channels, kernel, stride

NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # Mnih et al. 2015
SMALL = ((16, 3, 1), (32, 3, 1))  # for boards and other pictures of a few cells
NATURE_FROM = 36  # pixels: the least that the three layers above leave something of


class CNN(eqx.Module):
    """Features of one image: convolutions, then one linear layer, each with ReLU, the last one too: no feature is negative.

    Images of at least 36 pixels each way go through the layers of Mnih et al. 2015, smaller ones through two of 3 x 3. `layers` are others,
    `(channels, kernel, stride)` each; they are padded, so that a stride of s leaves `ceil(pixels / s)` of any number of pixels.

    If two neighbouring axes are equal, they are height and width, and the third has the channels: `(8, 8, 119)`, `(4, 84, 84)`. Otherwise
    the channels are the first axis or the last, whichever is shorter. Integers are divided by `high`, the brightest; bools count as 0 and
    1, and floats are taken as they are.
    """

    convs: tuple[eqx.nn.Conv2d, ...]
    linear: Linear
    shape: tuple[int, ...] = eqx.field(static=True)
    channels_last: bool = eqx.field(static=True)
    high: float = eqx.field(static=True)

    def __init__(
        self, shape: tuple[int, ...], d_out: int = 512, layers: Layers | None = None, high: int | float = 255, *, key: PRNGKeyArray
    ):
        require(high > 0 and math.isfinite(high), "CNN: high", high, "a positive number: what an integer pixel is at most")
        self.channels_last, channels, pixels = read_shape("CNN", shape)
        self.shape, self.high = tuple(shape), float(high)
        plan = check_layers("CNN", layers) if layers is not None else NATURE if min(pixels) >= NATURE_FROM else SMALL
        *conv_keys, linear_key = jax.random.split(key, len(plan) + 1)
        convs = []
        for (out, kernel, stride), conv_key in zip(plan, conv_keys, strict=True):
            convs.append(make_conv(channels, out, kernel, stride, "VALID" if plan is NATURE else "SAME", key=conv_key))
            channels, pixels = out, [(p - kernel) // stride + 1 if plan is NATURE else -(-p // stride) for p in pixels]
        self.convs = tuple(convs)
        self.linear = orthogonal_linear(channels * pixels[0] * pixels[1], d_out, key=linear_key)

    def __call__(self, image: Shaped[Array, "..."]) -> Float[Array, " D"]:
        check_input("CNN: image", image, *self.shape)
        x = image / self.high if jnp.issubdtype(image.dtype, jnp.integer) else image
        x = x.astype(jnp.float32) if x.dtype == jnp.bool_ else x
        x = (x if self.channels_last else jnp.moveaxis(x, 0, -1))[None]
        for conv in self.convs:
            assert isinstance(conv.padding, str)
            assert conv.bias is not None
            x = jax.nn.relu(convolve(x, conv.weight.transpose(2, 3, 1, 0), conv.stride[0], conv.padding) + conv.bias.ravel())
        return jax.nn.relu(self.linear(jnp.moveaxis(x[0], -1, 0).ravel()))


def read_shape(name: str, shape: tuple[int, ...]) -> tuple[bool, int, list[int]]:
    """Whether the channels of an image come last, how many there are, and its pixels each way."""
    if len(shape) != 3 or min(sorted(shape)[1:]) < 3:
        raise ShapeError(
            f"{name}: shape = {shape}; it must be (height, width, channels) or (channels, height, width), at least 3 pixels each way."
        )
    first, second, third = shape
    neighbours = (first == second, second == third)  # as height and width often are
    channels_last = neighbours[0] if neighbours[0] != neighbours[1] else third <= first
    channels, *pixels = (shape[-1], *shape[:2]) if channels_last else shape
    return channels_last, channels, pixels


def check_layers(name: str, layers: Layers) -> Layers:
    """The layers, if there is at least one and all are three positive integers."""
    triples = len(layers) > 0 and all(isinstance(layer, Sequence) and len(layer) == 3 for layer in layers)
    fine = triples and all(is_count(n) for layer in layers for n in layer)
    require(fine, f"{name}: layers", layers, "(channels, kernel, stride) for each layer", "Use layers=((32, 3, 2), (64, 3, 2)).")
    return layers


def make_conv(
    d_in: int, d_out: int, kernel: int, stride: int, padding: str, gain: float = HIDDEN_GAIN, *, key: PRNGKeyArray
) -> eqx.nn.Conv2d:
    """A convolution with orthogonal weights."""
    make_key, weight_key = jax.random.split(key)
    return orthogonal_conv(eqx.nn.Conv2d(d_in, d_out, kernel, stride, padding, key=make_key), gain, key=weight_key)
