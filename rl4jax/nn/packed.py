"""A model taken apart: its arrays, which plain `jit`, `scan` and `vmap` accept, and the rest, which they compare."""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
from jaxtyping import PyTree

from rl4jax.core.leaf_names import leaves_by_name

from .model import Model


@functools.partial(jax.tree_util.register_dataclass, data_fields=("params", "buffers"), meta_fields=("rest",))
@dataclasses.dataclass(frozen=True)
class Packed:
    """The parameters of a model, its other arrays, and everything else as one static value.

    An `eqx.Module` may hold functions as leaves, which `jax.jit` refuses; and taking nested modules apart costs more per call than a small
    network computes. Here they are two flat dicts by name, in a class that JAX takes apart by itself. By name, so that a checkpoint still
    fits when a model's fields change places.
    """

    params: dict[str, Any]  # arrays: what gradients are taken of
    buffers: dict[str, Any]  # arrays
    rest: "Rest"

    @property
    def model(self) -> Any:
        """The model put together again."""
        arrays = self.params | self.buffers
        return jax.tree.unflatten(
            self.rest.treedef, [arrays.get(name, leaf) for name, leaf in zip(self.rest.names, self.rest.leaves, strict=True)]
        )

    def with_params(self, params: dict[str, Any]) -> "Packed":
        """The same with other parameters."""
        return Packed(params, self.buffers, self.rest)


class Rest:
    """The structure of a model, the names of its leaves, and those that are no arrays. Hashed once, and equal to itself without looking."""

    def __init__(self, treedef: Any, names: tuple[str, ...], leaves: tuple[Any, ...]):
        self.treedef, self.names, self.leaves = treedef, names, leaves
        self._hash = hash((treedef, names))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Rest) and self.treedef == other.treedef and self.names == other.names and self.leaves == other.leaves
        )

    def __deepcopy__(self, memo: dict) -> "Rest":
        return self  # it never changes, and Equinox compares markers inside of it by identity

    def __repr__(self) -> str:
        return f"Rest({self.treedef})"


def pack(model: Model | PyTree) -> Packed:
    """Take a model apart; `pack(model).model` is the model again."""
    leaves, treedef = leaves_by_name(model)
    params = {name: leaf for name, leaf in leaves.items() if eqx.is_inexact_array(leaf)}
    buffers = {name: leaf for name, leaf in leaves.items() if eqx.is_array(leaf) and name not in params}
    static = tuple(None if eqx.is_array(leaf) else leaf for leaf in leaves.values())
    return Packed(params, buffers, Rest(treedef, tuple(leaves), static))
