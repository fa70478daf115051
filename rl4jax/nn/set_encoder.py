"""From a set of entities to one vector, whatever their order and number."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rl4jax.gradients import safe

from .entity_mask import EntityMask, as_entity_mask, check_entities, leave_out
from .row_linear import RowLinear, orthogonal_rows


class SetEncoder(eqx.Module):
    """Two layers with ReLU on each entity, then the mean and the maximum over those that the mask shows: `[2 * d_hidden]`.

    The order of the entities changes nothing, nor does what lies in masked slots, even NaN, nor how many of these there are. No entity
    at all gives zeros. Entities do not see each other here: for that put a `TransformerEncoder` in front of an `AttentionPool`.
    """

    layers: tuple[RowLinear, RowLinear]

    def __init__(self, d_in: int, d_hidden: int = 64, *, key: PRNGKeyArray):
        first_key, second_key = jax.random.split(key)
        self.layers = (orthogonal_rows(d_in, d_hidden, key=first_key), orthogonal_rows(d_hidden, d_hidden, key=second_key))

    @property
    def d_out(self) -> int:
        """How many features come out."""
        return 2 * self.layers[-1].bias.size

    def __call__(self, x: Float[Array, "S D"], mask: EntityMask = None) -> Float[Array, " H"]:
        check_entities("SetEncoder: x", x, self.layers[0].weight.shape[1])
        present = jnp.ones(len(x), bool) if mask is None else as_entity_mask("SetEncoder: mask", mask, (len(x),))
        x = leave_out(x, present)
        for layer in self.layers:
            x = jax.nn.relu(layer(x))
        mean = leave_out(x, present).sum(0) / jnp.maximum(present.sum(), 1)
        return jnp.concatenate([mean, safe.max(x, 0, where=present[:, None])])
