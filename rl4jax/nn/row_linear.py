"""One linear layer on many rows."""

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray

from .orthogonal import HIDDEN_GAIN, orthogonal_linear


class RowLinear(eqx.Module):
    """`x @ weight.T + bias`, the same for every row of x.

    The weight is `[out, in]`, as in PyTorch, and not `[in, out]` as in `Linear`: its gradient sums over the rows of all examples, thousands
    for a batch of entity sets, and XLA on CPU computes that sum in half the time if the result is `[out, in]`.
    """

    weight: Float[Array, "O I"]
    bias: Float[Array, " O"]

    def __call__(self, x: Float[Array, "S I"]) -> Float[Array, "S O"]:
        return x @ self.weight.T + self.bias


def orthogonal_rows(d_in: int, d_out: int, gain: float = HIDDEN_GAIN, *, key: PRNGKeyArray) -> RowLinear:
    """A `RowLinear` with the weights of `orthogonal_linear`."""
    layer = orthogonal_linear(d_in, d_out, gain, key=key)
    return RowLinear(layer.weight.T, layer.bias)
