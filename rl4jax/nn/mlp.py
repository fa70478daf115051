"""A stack of linear layers."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from rl4jax.core.errors import ConfigError, did_you_mean, is_count, require

from .input_check import check_input
from .linear import Linear
from .orthogonal import orthogonal_linear

Activation = Callable[[Array], Array]
ACTIVATIONS: dict[str, Activation] = {
    "elu": jax.nn.elu, "gelu": jax.nn.gelu, "relu": jax.nn.relu, "silu": jax.nn.silu, "tanh": jax.nn.tanh,
}  # fmt: skip

Norm = str | None  # "rms", "layer" or none
NormLayer = eqx.nn.RMSNorm | eqx.nn.LayerNorm


def activation_named(activation: str | Activation) -> Activation:
    """An activation by its name; a function is returned as it is."""
    if not isinstance(activation, str):
        return activation
    if activation not in ACTIVATIONS:
        raise ConfigError(f"activation = {activation!r} is not one we know. {did_you_mean(activation, ACTIVATIONS)} Or give a function.")
    return ACTIVATIONS[activation]


def norm_named(norm: str, size: int) -> NormLayer:
    """A norm of `size` features: `rms` as in DreamerV3, without a shift and with 1e-4 below the root, `layer` as in PyTorch.

    >>> norm_named("rms", 2)(jax.numpy.array([3.0, 4.0]))
    Array([0.8485247, 1.1313663], dtype=float32)
    """
    if norm == "rms":
        return eqx.nn.RMSNorm(size, eps=1e-4, use_bias=False)
    if norm == "layer":
        return eqx.nn.LayerNorm(size)
    raise ConfigError(f"norm = {norm!r} is not one we know. {did_you_mean(str(norm), ('layer', 'rms'))} Or None.")


class MLP(eqx.Module):
    """Linear layers, each followed by the activation, the last one too: features for a head to read.

    With `norm`, "rms" or "layer", they are normalised before each activation. `layer(d_in, d_out, key=)` makes one of them: orthogonal
    unless told otherwise.

    >>> MLP(4, (64, 32), key=jax.random.key(0))(jax.numpy.ones(4)).shape
    (32,)
    """

    layers: tuple[Linear, ...]
    norms: tuple[NormLayer, ...]  # one for each layer, or none
    activation: Activation = eqx.field(static=True)

    def __init__(
        self,
        d_in: int,
        hidden: Sequence[int],
        activation: str | Activation = "tanh",
        norm: Norm = None,
        layer: Callable[..., Linear] = orthogonal_linear,
        *,
        key: PRNGKeyArray,
    ):
        check_hidden(hidden)
        sizes = [d_in, *hidden]
        keys = jax.random.split(key, max(len(hidden), 1))
        self.layers = tuple(layer(i, o, key=k) for i, o, k in zip(sizes[:-1], sizes[1:], keys, strict=False))
        self.norms = () if norm is None else tuple(norm_named(norm, size) for size in hidden)
        self.activation = activation_named(activation)

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, " H"]:
        if self.layers:
            check_input("MLP: x", x, len(self.layers[0].weight))
        for i, layer in enumerate(self.layers):
            x = layer(x)
            x = self.activation(self.norms[i](x) if self.norms else x)
        return x


def check_hidden(hidden: Sequence[int]) -> None:
    """Raise unless these are the sizes of layers; there may be none."""
    fine = isinstance(hidden, Sequence) and all(is_count(size) for size in hidden)
    require(fine, "MLP: hidden", hidden, "a sequence of positive integers, one per layer", "Use hidden=(64, 64).")
