"""A stack of linear layers, orthogonally initialised."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from rl4jax.core.errors import ConfigError, did_you_mean

from .linear import Linear
from .orthogonal import orthogonal_linear

Activation = Callable[[Array], Array]
ACTIVATIONS: dict[str, Activation] = {
    "elu": jax.nn.elu, "gelu": jax.nn.gelu, "relu": jax.nn.relu, "silu": jax.nn.silu, "tanh": jax.nn.tanh,
}  # fmt: skip


def activation_named(activation: str | Activation) -> Activation:
    """An activation by its name; a function is returned as it is."""
    if not isinstance(activation, str):
        return activation
    if activation not in ACTIVATIONS:
        raise ConfigError(f"activation = {activation!r} is not one we know. {did_you_mean(activation, ACTIVATIONS)} Or give a function.")
    return ACTIVATIONS[activation]


class MLP(eqx.Module):
    """Linear layers, each followed by the activation, the last one too: features for a head to read.

    >>> MLP(4, (64, 32), key=jax.random.key(0))(jax.numpy.ones(4)).shape
    (32,)
    """

    layers: tuple[Linear, ...]
    activation: Activation = eqx.field(static=True)

    def __init__(self, d_in: int, hidden: Sequence[int], activation: str | Activation = "tanh", *, key: PRNGKeyArray):
        sizes = [d_in, *hidden]
        keys = jax.random.split(key, max(len(hidden), 1))
        self.layers = tuple(orthogonal_linear(i, o, key=k) for i, o, k in zip(sizes[:-1], sizes[1:], keys, strict=False))
        self.activation = activation_named(activation)

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, " H"]:
        for layer in self.layers:
            x = self.activation(layer(x))
        return x
