"""What one item of a ring is made of, and whether items fit it."""

from collections.abc import Collection
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from rl4jax.core.contract import describe, is_key
from rl4jax.core.errors import ConfigError, ShapeError, is_count, require

_KINDS = "biufcV"  # V: bfloat16 and other small floats


class Layout(NamedTuple):
    """Structure, shapes and dtypes of one item, without a batch axis. Compares equal to that of other items of the same kind."""

    structure: Any  # a PyTreeDef
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]
    names: tuple[str, ...]  # of the leaves, for messages: "obs", "reward"


def check_capacity(capacity: Any, what: str, less_than: int) -> int:
    fix = "It is the number of items that the ring can hold."
    require(is_count(capacity) and capacity < less_than, f"{what}: capacity", capacity, f"a positive integer below {less_than:,}", fix)
    return int(capacity)


def layout_of(like: PyTree, what: str) -> Layout:
    """The layout of an example item, or of its `jax.ShapeDtypeStruct`s; a Python number is what JAX makes of it."""
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    names = tuple(jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths)
    leaves = [jnp.asarray(leaf) if type(leaf) in (bool, int, float, complex) else leaf for _, leaf in paths]
    for name, leaf in zip(names, leaves, strict=True):
        dtype = getattr(leaf, "dtype", None)
        if not isinstance(dtype, np.dtype) or dtype.kind not in _KINDS or dtype.fields is not None:
            hint = " Store jax.random.key_data(key)." if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) and is_key(leaf) else ""
            raise ShapeError(f"{what}: {_name('like', name)} = {leaf!r} must be an array of numbers or a jax.ShapeDtypeStruct.{hint}")
    if not leaves:
        raise ShapeError(f"{what}: like = {like!r} has no arrays; give one example item, or its jax.ShapeDtypeStructs.")
    return Layout(structure, tuple(tuple(x.shape) for x in leaves), tuple(x.dtype for x in leaves), names)


def check_stream(like: Any, what: str) -> None:
    """Raise unless a step of a stream says whether an episode begins with it."""
    if not hasattr(like, "is_first"):
        raise ShapeError(f"{what}: like is a {type(like).__name__} without is_first; it must say where episodes begin.")
    if np.shape(like.is_first) or jnp.result_type(like.is_first) != np.dtype(bool):
        raise ShapeError(f"{what}: like.is_first = {like.is_first!r} must be one bool.")


def check_steps(items: Any, valid: Any, like: Any, num_streams: int, what: str) -> int:
    """Raise unless these are steps `[N, B, ...]` such as `like`, and `valid` one bool for each; return N."""
    of_streams = jax.tree.map(lambda x: jax.ShapeDtypeStruct((num_streams, *x.shape), x.dtype), like)
    num = split_items(items, layout_of(of_streams, what), what)[1]
    found, dtype = np.shape(valid), getattr(valid, "dtype", type(valid).__name__)
    if valid is not None and (found != (num, num_streams) or dtype != np.dtype(bool)):
        raise ShapeError(f"{what}: valid is {dtype}{list(found)}; it must be bool[{num}, {num_streams}], one for each step.")
    return num


def check_rewritten(fields: dict[str, Any], rows: Any, like: Any, names: Collection[str], what: str) -> None:
    """Raise unless fields are among those that may be rewritten, and there is one value for each of the steps in these rows `[L, N]`."""
    known = set(fields) <= set(names)
    require(known, f"{what}: fields", sorted(fields), f"among those that may be rewritten, {sorted(names)}")
    for name, values in fields.items():
        wanted = jax.tree.map(lambda x: jax.ShapeDtypeStruct((*rows.shape, *x.shape), x.dtype), getattr(like, name))
        if jax.tree.map(lambda x: (np.shape(x), jnp.result_type(x)), values) != jax.tree.map(lambda x: (x.shape, x.dtype), wanted):
            raise ShapeError(f"{what}: {name} is {describe(values)}; it must be {describe(wanted)}, one for each step that was drawn.")


def split_items(items: PyTree, layout: Layout, what: str) -> tuple[list[Any], int]:
    """The leaves of a batch of items, and how many items there are; raise unless they fit the layout."""
    leaves, structure = jax.tree.flatten(items)
    if structure != layout.structure:
        raise ShapeError(f"{what}: items are {structure}; they must be {layout.structure}, as `like` was.")
    num = None
    for leaf, shape, dtype, name in zip(leaves, layout.shapes, layout.dtypes, layout.names, strict=True):
        got = leaf.shape if isinstance(leaf, np.ndarray) else np.shape(leaf)
        if not got or got[1:] != shape:
            hint = " Give a batch: x[None] makes one of a single item." if got == shape else ""
            rule = ", ".join(["N", *map(str, shape)]) + ("" if shape else ",")
            raise ShapeError(f"{what}: {_name('items', name)} has shape {got}; it must be ({rule}).{hint}")
        if getattr(leaf, "dtype", None) != dtype:
            found = getattr(leaf, "dtype", type(leaf).__name__)
            raise ShapeError(f"{what}: {_name('items', name)} has dtype {found}; it must be {dtype}, as in `like`. Use .astype.")
        if num not in (None, got[0]):
            raise ShapeError(f"{what}: {_name('items', name)} has {got[0]} items, and the leaves before it {num}. Give as many of each.")
        num = got[0]
    assert num is not None  # a layout has leaves
    return leaves, num


def check_valid(valid: Any, num: int, what: str) -> None:
    """Raise unless `valid` is one bool for each item."""
    if np.shape(valid) != (num,) or getattr(valid, "dtype", None) != np.dtype(bool):
        found = getattr(valid, "dtype", type(valid).__name__)
        raise ShapeError(f"{what}: valid is {found}{list(np.shape(valid))}; it must be bool[{num}], one for each item.")


def check_bits(bits: Any, what: str) -> None:
    """Raise unless `bits` is a vector of random bits."""
    if len(np.shape(bits)) != 1 or getattr(bits, "dtype", None) != np.dtype(np.uint32):
        found = getattr(bits, "dtype", type(bits).__name__)
        raise ShapeError(
            f"{what}: bits are {found}{list(np.shape(bits))}; they must be uint32[N]. Use jax.random.bits(key, (N,), jnp.uint32)."
        )


def check_not_empty(size: int, what: str) -> None:
    require(size > 0, f"{what}: size", size, "at least 1", "Add items before sampling.")


def check_slots(slots: np.ndarray, size: int, what: str) -> None:
    if slots.size and (slots.min() < 0 or slots.max() >= size):
        raise ConfigError(f"{what}: slots go from {slots.min()} to {slots.max()}; they must be in [0, {size}), where items are.")


def _name(root: str, name: str) -> str:
    return f"{root}.{name}" if name else root
