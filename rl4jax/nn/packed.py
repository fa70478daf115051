"""A model taken apart: its arrays, which plain `jit`, `scan` and `vmap` accept, and the rest, which they compare."""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
from jaxtyping import PyTree

from .model import Model


@functools.partial(jax.tree_util.register_dataclass, data_fields=("params", "buffers"), meta_fields=("rest",))
@dataclasses.dataclass(frozen=True)
class Packed:
    """The parameters of a model, its other arrays, and everything else as one static value.

    An `eqx.Module` may hold functions as leaves, which `jax.jit` refuses; and taking nested modules apart costs more per call than a small
    network computes. Here they are two flat tuples, in a class that JAX takes apart by itself.
    """

    params: tuple  # of arrays: what gradients are taken of
    buffers: tuple  # of arrays
    rest: "Rest"

    @property
    def model(self) -> Any:
        """The model put together again."""
        params, buffers = iter(self.params), iter(self.buffers)
        source = {"param": lambda leaf: next(params), "buffer": lambda leaf: next(buffers), "static": lambda leaf: leaf}
        return jax.tree.unflatten(
            self.rest.treedef, [source[kind](leaf) for kind, leaf in zip(self.rest.kinds, self.rest.leaves, strict=True)]
        )


class Rest:
    """The structure of a model and its leaves that are no arrays. Hashed once, and equal to itself without looking."""

    def __init__(self, treedef: Any, kinds: tuple[str, ...], leaves: tuple[Any, ...]):
        self.treedef, self.kinds, self.leaves = treedef, kinds, leaves
        self._hash = hash((treedef, kinds))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Rest) and self.treedef == other.treedef and self.kinds == other.kinds and self.leaves == other.leaves
        )

    def __repr__(self) -> str:
        return f"Rest({self.treedef})"


def pack(model: Model | PyTree) -> Packed:
    """Take a model apart; `pack(model).model` is the model again."""
    leaves, treedef = jax.tree.flatten(model)
    kinds = tuple("param" if eqx.is_inexact_array(x) else "buffer" if eqx.is_array(x) else "static" for x in leaves)
    by_kind = {kind: tuple(x for x, k in zip(leaves, kinds, strict=True) if k == kind) for kind in ("param", "buffer")}
    static = tuple(x if kind == "static" else None for x, kind in zip(leaves, kinds, strict=True))
    return Packed(by_kind["param"], by_kind["buffer"], Rest(treedef, kinds, static))
