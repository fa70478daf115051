"""From features back to an image."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .cnn import Layers, check_layers, make_conv, read_shape
from .input_check import check_input
from .linear import Linear
from .orthogonal import orthogonal_linear

HALVING = ((32, 3, 2), (64, 3, 2), (64, 3, 2))


class CNNDecoder(eqx.Module):
    """An image of any given shape from features: what `CNN` does with the same `layers`, backwards.

    One linear layer makes the smallest picture. Then, from the last of `layers` to the first, each pixel is repeated `stride` times each
    way, what is too much is cut off, and a convolution follows. (Transposed convolutions, which do both at once, leave a chequered
    pattern: Odena et al. 2016.) The output is linear, in the units that `CNN` sees: compare it with
    `image / high`, 255 for most images of integers.
    """

    linear: Linear
    convs: tuple[eqx.nn.Conv2d, ...]
    start: tuple[int, int, int] = eqx.field(static=True)
    steps: tuple[tuple[int, int, int], ...] = eqx.field(static=True)  # stride, height and width of each convolution
    channels_last: bool = eqx.field(static=True)

    def __init__(self, d_in: int, shape: tuple[int, ...], layers: Layers = HALVING, *, key: PRNGKeyArray):
        self.channels_last, channels, pixels = read_shape("CNNDecoder", shape)
        check_layers("CNNDecoder", layers)
        linear_key, *conv_keys = jax.random.split(key, len(layers) + 1)
        convs, steps = [], []
        for (wide, kernel, stride), conv_key in zip(layers, conv_keys, strict=True):  # from the image inwards, turned around below
            gain = {"gain": 1.0} if not convs else {}
            convs.append(make_conv(wide, channels, kernel, 1, "SAME", key=conv_key, **gain))
            steps.append((stride, *pixels))
            channels, pixels = wide, [-(-p // stride) for p in pixels]
        self.convs, self.steps = tuple(reversed(convs)), tuple(reversed(steps))
        self.start = (channels, pixels[0], pixels[1])
        self.linear = orthogonal_linear(d_in, channels * pixels[0] * pixels[1], key=linear_key)

    def __call__(self, features: Float[Array, "..."]) -> Float[Array, "A B C"]:
        check_input("CNNDecoder: features", features, len(self.linear.weight))
        x = self.linear(features).reshape(self.start)
        for conv, (stride, height, width) in zip(self.convs, self.steps, strict=True):
            larger = jnp.repeat(jnp.repeat(jax.nn.relu(x), stride, 1), stride, 2)
            x = conv(larger[:, :height, :width])
        return jnp.moveaxis(x, 0, -1) if self.channels_last else x
