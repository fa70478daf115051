"""Convolutions of small pictures against XLA's own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax.nn import pixel_conv


def by_xla(x, conv):
    out = jax.lax.conv_general_dilated(x[None], conv.weight, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return out[0] + conv.bias


@pytest.mark.parametrize("most", [0, 2**15], ids=["convolution", "product"])
@pytest.mark.parametrize("shape", [(4, 6, 3), (2, 2, 1), (8, 8, 5)])
def test_both_ways_are_the_convolution(shape, most, monkeypatch, getkey):
    monkeypatch.setattr(pixel_conv, "MOST_NEIGHBOURS", most)
    conv = pixel_conv.Conv(shape[-1], 4, key=getkey())
    conv = eqx.tree_at(lambda c: c.bias, conv, jnp.arange(4.0))
    x = jax.random.normal(getkey(), shape)
    height, width, _ = shape
    halved = by_xla(x, conv).reshape(height // 2, 2, width // 2, 2, -1).max((1, 3))
    np.testing.assert_allclose(conv.pooled(x), halved, atol=1e-5)
    doubled = jnp.repeat(jnp.repeat(x, 2, 0), 2, 1)
    np.testing.assert_allclose(conv.of_doubled(x), by_xla(doubled, conv), atol=1e-5)
