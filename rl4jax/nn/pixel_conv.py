"""Convolutions of small pictures, as products of matrices: inside of loops XLA is many times slower with convolutions on CPUs.

They take a batch, unlike other networks, so that a product has one row for each place of all pictures. If `vmap` added the batch, XLA would
sum the weights' gradients over two axes, and turn them around in memory first, which takes several times as long.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .truncated_normal import truncated_weights

KERNEL = 5
MOST_NEIGHBOURS = 2**16  # numbers per picture; beyond it a convolution needs less memory
# Of a pixel and its neighbours in a picture of doubled sides, which come from the pixel before, from its own and from the one after:
# for an even pixel and for an odd one.
FROM = np.array([[[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]], [[1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 1]]], np.float32)

# Of a pixel of a cell, the even or the odd one: in which cell and at which place there is each of its neighbours.
CELLS = np.array([[[[2 * y + p - a == k for k in range(KERNEL)] for p in range(2)] for y in range(3)] for a in range(2)], np.float32)


class Conv(eqx.Module):
    """A convolution that keeps the sides, channels last, before the sides are halved or after they were doubled.

    Weights are as in `truncated_linear`.
    """

    weight: Float[Array, "k k I O"]
    bias: Float[Array, " O"]

    def __init__(self, d_in: int, d_out: int, *, key: PRNGKeyArray):
        self.weight = truncated_weights(key, (KERNEL, KERNEL, d_in, d_out), d_in * KERNEL**2)
        self.bias = jnp.zeros(d_out)

    def pooled(self, x: Float[Array, "N H W I"]) -> Float[Array, "N H//2 W//2 O"]:
        """Convolve, then take the largest of each 2 x 2 pixels: these four see 3 x 3 cells of 2 x 2 pixels."""
        weight = jnp.einsum("aypk,bxql,klio->yxpqiabo", CELLS, CELLS, self.weight)
        num, height, width, d_in = x.shape
        cells = jnp.swapaxes(x.reshape(num, height // 2, 2, width // 2, 2, d_in), 2, 3).reshape(num, height // 2, width // 2, 4 * d_in)
        four = convolve(cells, weight.reshape(3, 3, 4 * d_in, -1))
        return four.reshape(num, height // 2, width // 2, 4, -1).max(3) + self.bias

    def of_doubled(self, x: Float[Array, "N H W I"]) -> Float[Array, "N 2*H 2*W O"]:
        """Convolve the picture with each pixel four times, without making it: its 5 x 5 pixels are 3 x 3 different ones."""
        weight = jnp.einsum("ayk,bxl,klio->yxiabo", FROM, FROM, self.weight)
        num, height, width, d_in = x.shape
        four = convolve(x, weight.reshape(3, 3, d_in, -1)).reshape(num, height, width, 2, 2, -1)
        return jnp.swapaxes(four, 2, 3).reshape(num, 2 * height, 2 * width, -1) + self.bias


def convolve(
    x: Float[Array, "N H W I"], weight: Float[Array, "k k I O"], stride: int = 1, padding: str = "SAME"
) -> Float[Array, "N A B O"]:
    """Weighted sums of neighbours, zeros beyond the edge."""
    kernel, _, d_in, d_out = weight.shape
    pads = jax.lax.padtype_to_pads(x.shape[1:3], (kernel, kernel), (stride, stride), padding)
    height, width = ((side + sum(pad) - kernel) // stride + 1 for side, pad in zip(x.shape[1:3], pads, strict=True))
    if height * width * kernel**2 * d_in > MOST_NEIGHBOURS:
        return jax.lax.conv_general_dilated(x, weight, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    wide, across = jnp.pad(x, [(0, 0), *pads, (0, 0)]), range(kernel)
    below, right = stride * (height - 1) + 1, stride * (width - 1) + 1
    near = [wide[:, i : i + below : stride, j : j + right : stride] for i in across for j in across]
    places = jnp.concatenate(near, -1).reshape(len(x) * height * width, -1)
    return (places @ weight.reshape(-1, d_out)).reshape(len(x), height, width, d_out)
