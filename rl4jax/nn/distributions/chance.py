"""What is random in an action, said before it is drawn: it depends on shapes only."""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

DRAW = {"gumbel": jax.random.gumbel, "normal": jax.random.normal, "uniform": jax.random.uniform}


@dataclasses.dataclass(frozen=True)
class Chance:
    """So many independent numbers, all of one kind: standard Gumbel, standard normal, or uniform in [0, 1)."""

    kind: Literal["gumbel", "normal", "uniform"]
    shape: tuple[int, ...]


def draw(chance: PyTree[Chance], key: PRNGKeyArray) -> PyTree[Array]:
    """Noise of these kinds and shapes. What has parts splits the key among them, so that a part may also be drawn by itself."""
    if isinstance(chance, Chance):
        return DRAW[chance.kind](key, chance.shape, jnp.float32)
    parts, structure = jax.tree.flatten(chance, is_leaf=lambda x: x is not chance)
    return structure.unflatten([draw(part, k) for part, k in zip(parts, jax.random.split(key, len(parts)), strict=True)])
