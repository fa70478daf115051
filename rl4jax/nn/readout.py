"""What a world model says of a latent: a few layers, and one that ends in numbers."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from .linear import Linear
from .mlp import MLP
from .truncated_normal import dense, truncated_linear


class Readout(eqx.Module):
    """`num_layers` of `units` as everywhere in DreamerV3, then a linear one whose weights begin `gain` times as large: with 0 it says 0."""

    body: MLP
    last: Linear

    def __init__(self, d_in: int, d_out: int, units: int, num_layers: int, gain: float = 1.0, *, key: PRNGKeyArray):
        body_key, last_key = jax.random.split(key)
        self.body = dense(d_in, *(units,) * num_layers, key=body_key)
        self.last = truncated_linear(units, d_out, gain, key=last_key)

    def __call__(self, features: Float[Array, " F"]) -> Float[Array, " O"]:
        return self.last(self.body(features))
