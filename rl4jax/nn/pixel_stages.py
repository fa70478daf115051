"""Pictures into a few numbers per place and back, as DreamerV3 does it: stages that halve or double the sides."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rl4jax.core.errors import ShapeError, is_count, require

from .block_linear import BlockLinear
from .cnn import read_shape
from .linear import Linear
from .mlp import MLP, NormLayer, norm_named
from .pixel_conv import Conv
from .truncated_normal import dense, truncated_linear

WIDER = (2, 3, 4, 4)  # times `depth`: the channels after each stage
LEAST, AIM, MOST = 3, 4, 16  # pixels: of the sides that are left in the middle


class PixelEncoder(eqx.Module):
    """Pictures as vectors: convolutions, each followed by the largest of 2 x 2, a norm over channels and SiLU.

    Pixels are from 0 to 1. Sides are halved until 4 are left, or they cannot be halved any more, at most four times; between 3 and 16
    must be left.
    """

    convs: tuple[Conv, ...]
    norms: tuple[NormLayer, ...]
    channels_last: bool = eqx.field(static=True)
    middle: tuple[int, int, int] = eqx.field(static=True)  # height, width and channels in the end

    def __init__(self, shape: tuple[int, ...], depth: int, *, key: PRNGKeyArray):
        self.channels_last, channels, pixels = read_shape("PixelEncoder", shape)
        widths, sides = plan(shape, pixels, depth)
        keys = jax.random.split(key, len(widths))
        self.convs = tuple(Conv(i, o, key=k) for i, o, k in zip((channels, *widths[:-1]), widths, keys, strict=True))
        self.norms = tuple(norm_named("rms", width) for width in widths)
        self.middle = (*sides, widths[-1])

    @property
    def d_out(self) -> int:
        """How many numbers come out."""
        return math.prod(self.middle)

    def __call__(self, images: Float[Array, "N A B C"]) -> Float[Array, "N D"]:
        x = images - 0.5
        x = x if self.channels_last else jnp.moveaxis(x, 1, -1)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = jax.nn.silu(at_each_pixel(norm, conv.pooled(x)))
        return x.reshape(len(x), -1)


class PixelDecoder(eqx.Module):
    """Pictures, with pixels in (0, 1), from the two halves of latents: `PixelEncoder` backwards.

    The memory and the drawn half each paint the smallest picture, then it is doubled, convolved, normalised, until it is whole.
    """

    from_deter: BlockLinear
    before_stoch: MLP
    from_stoch: Linear
    first_norm: NormLayer
    convs: tuple[Conv, ...]
    norms: tuple[NormLayer, ...]
    channels_last: bool = eqx.field(static=True)
    middle: tuple[int, int, int] = eqx.field(static=True)

    def __init__(
        self,
        d_deter: int,
        d_stoch: int,
        shape: tuple[int, ...],
        depth: int,
        units: int,
        num_blocks: int,
        *,
        key: PRNGKeyArray,
    ):
        self.channels_last, channels, pixels = read_shape("PixelDecoder", shape)
        widths, sides = plan(shape, pixels, depth)
        self.middle = (*sides, widths[-1])
        deter_key, before_key, stoch_key, *conv_keys = jax.random.split(key, 3 + len(widths))
        self.from_deter = BlockLinear(d_deter, math.prod(self.middle), math.gcd(num_blocks, widths[-1], d_deter), key=deter_key)
        self.before_stoch = dense(d_stoch, 2 * units, key=before_key)
        self.from_stoch = truncated_linear(2 * units, math.prod(self.middle), key=stoch_key)
        self.first_norm = norm_named("rms", widths[-1])
        outs = (*reversed(widths[:-1]), channels)
        self.convs = tuple(Conv(i, o, key=k) for i, o, k in zip(reversed(widths), outs, conv_keys, strict=True))
        self.norms = tuple(norm_named("rms", width) for width in outs[:-1])

    def __call__(self, deter: Float[Array, "N D"], stoch: Float[Array, "N S"]) -> Float[Array, "N A B C"]:
        height, width, channels = self.middle
        x = jax.vmap(self.from_deter)(deter).reshape(-1, channels, height, width)  # each block its own channels
        x = jnp.moveaxis(x, 1, -1) + jax.vmap(lambda stoch: self.from_stoch(self.before_stoch(stoch)))(stoch).reshape(-1, *self.middle)
        x = jax.nn.silu(at_each_pixel(self.first_norm, x))
        for conv, norm in zip(self.convs, (*self.norms, None), strict=True):
            x = conv.of_doubled(x)
            x = jax.nn.sigmoid(x) if norm is None else jax.nn.silu(at_each_pixel(norm, x))
        return x if self.channels_last else jnp.moveaxis(x, -1, 1)


def plan(shape: tuple[int, ...], pixels: list[int], depth: int) -> tuple[tuple[int, ...], tuple[int, int]]:
    """The channels after each stage, and the sides that are left in the end."""
    require(is_count(depth), "depth", depth, "a positive integer", "It is the channels of pictures, times 2, 3, 4 and 4.")
    halvings, left = 0, pixels
    while halvings < len(WIDER) and all(p % 2 == 0 and p // 2 >= LEAST for p in left) and (halvings == 0 or max(left) > AIM):
        halvings, left = halvings + 1, [p // 2 for p in left]
    if halvings == 0 or max(left) > MOST:
        raise ShapeError(
            f"an image of shape {shape} can be halved {halvings} times, which leaves {left[0]} x {left[1]} pixels; it must be once "
            f"or more, and sides of {LEAST} to {MOST} must be left. Use sides such as 8, 12, 16, 32, 64 or 96 pixels."
        )
    return tuple(depth * wider for wider in WIDER[:halvings]), (left[0], left[1])


def at_each_pixel(norm: NormLayer, x: Float[Array, "N H W C"]) -> Float[Array, "N H W C"]:
    """The norm of all channels of each pixel."""
    return jax.vmap(norm)(x.reshape(-1, x.shape[-1])).reshape(x.shape)
