"""Convolutions of small pictures against XLA's own."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax.nn import pixel_conv
from rl4jax.nn.pixel_stages import PixelDecoder, PixelEncoder


def by_xla(x, conv):
    return jax.lax.conv_general_dilated(x, conv.weight, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + conv.bias


@pytest.mark.parametrize("most", [0, 2**15], ids=["convolution", "product"])
@pytest.mark.parametrize("shape", [(4, 6, 3), (2, 2, 1), (8, 8, 5)])
def test_both_ways_are_the_convolution(shape, most, monkeypatch, getkey):
    monkeypatch.setattr(pixel_conv, "MOST_NEIGHBOURS", most)
    conv = pixel_conv.Conv(shape[-1], 4, key=getkey())
    conv = eqx.tree_at(lambda c: c.bias, conv, jnp.arange(4.0))
    x = jax.random.normal(getkey(), (3, *shape))
    height, width, _ = shape
    halved = by_xla(x, conv).reshape(3, height // 2, 2, width // 2, 2, -1).max((2, 4))
    np.testing.assert_allclose(conv.pooled(x), halved, atol=1e-5)
    doubled = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
    np.testing.assert_allclose(conv.of_doubled(x), by_xla(doubled, conv), atol=1e-5)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("shape", "kernel", "stride"), [((5, 4, 3), 3, 1), ((9, 8, 2), 3, 2), ((12, 13, 1), 8, 4), ((4, 4, 2), 2, 1)])
def test_strides_and_paddings_are_those_of_xla(shape, kernel, stride, padding, getkey):
    x, weight = jax.random.normal(getkey(), (2, *shape)), jax.random.normal(getkey(), (kernel, kernel, shape[-1], 4))
    expected = jax.lax.conv_general_dilated(x, weight, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    np.testing.assert_allclose(pixel_conv.convolve(x, weight, stride, padding), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("side", "middle"), [(16, (4, 4, 12)), (12, (3, 3, 12)), (8, (4, 4, 8)), (6, (3, 3, 8)), (64, (4, 4, 16)), (96, (6, 6, 16))]
)
def test_pictures_are_halved_until_four_pixels_are_left_but_at_least_once(side, middle, getkey):
    shape = (side, side, 1)
    encoder, decoder = PixelEncoder(shape, 4, key=getkey()), PixelDecoder(8, 6, shape, 4, 5, 4, key=getkey())
    assert encoder.middle == decoder.middle == middle
    assert encoder(jnp.zeros((3, *shape))).shape == (3, math.prod(middle))
    assert decoder(jnp.zeros((3, 8)), jnp.zeros((3, 6))).shape == (3, *shape)
