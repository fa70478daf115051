"""The few things we need of Gymnasium's spaces inside a compiled program."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from .errors import EnvError, ShapeError
from .number import is_concrete


class StaticSpace:
    """A space that may sit in a static field: hashable, and quick to compare with itself.

    `jit` compares static fields on each call and Gymnasium's spaces have no hash.
    """

    def __init__(self, space: gymnasium.Space):
        self.space = space
        self._hash = hash(repr(space))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, StaticSpace) and bool(self.space == other.space))

    def __repr__(self) -> str:
        return repr(self.space)


def jax_dtype(dtype: Any) -> np.dtype:
    """The dtype an array of this kind has in JAX: 64-bit numbers become 32-bit ones."""
    return np.dtype(jax.dtypes.canonicalize_dtype(np.dtype(dtype)))


def struct_of(space: gymnasium.Space) -> PyTree[jax.ShapeDtypeStruct]:
    """Shapes and dtypes of the elements of a space, as JAX holds them."""
    if isinstance(space, spaces.Dict):
        return {name: struct_of(part) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(struct_of(part) for part in space)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return jax.ShapeDtypeStruct(space.shape, np.dtype(np.int32))
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return jax.ShapeDtypeStruct(space.shape, jax_dtype(space.dtype))
    raise EnvError(f"{space} is a space rl4jax does not know. Use Discrete, MultiDiscrete, MultiBinary, Box, Dict or Tuple.")


def as_gymnasium(space: gymnasium.Space, x: PyTree) -> PyTree:
    """An element as Gymnasium has it: arrays in the space's own dtype that the caller may change, Discrete parts as NumPy integers."""
    if isinstance(space, spaces.Dict):
        return {name: as_gymnasium(part, x[name]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(as_gymnasium(part, part_x) for part, part_x in zip(space, x, strict=True))
    array = np.array(x, dtype=space.dtype)
    return array[()] if isinstance(space, spaces.Discrete) else array


def flatten(space: gymnasium.Space, x: PyTree) -> Float[Array, " D"]:
    """One vector from one element of a space, in the order and encoding of `gymnasium.spaces.flatten` (discrete parts one-hot)."""
    if isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary) and jnp.shape(x) != space.shape:
        raise ShapeError(f"flatten: x has shape {jnp.shape(x)}; one element of {space} has {space.shape}. For a batch use jax.vmap.")
    if isinstance(space, spaces.Dict):
        return jnp.concatenate([flatten(part, x[name]) for name, part in space.items()])
    if isinstance(space, spaces.Tuple):
        return jnp.concatenate([flatten(part, part_x) for part, part_x in zip(space, x, strict=True)])
    if isinstance(space, spaces.Discrete):
        return jax.nn.one_hot(x - space.start, int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        parts = zip(jnp.ravel(x - space.start), space.nvec.ravel(), strict=True)
        return jnp.concatenate([jax.nn.one_hot(part, int(n)) for part, n in parts])
    return jnp.ravel(x).astype(jnp.float32)


def parts_of(tree: Any) -> dict[str, Any]:
    """The parts of a Dict or Tuple (of a space or of an observation) by name; of anything else one, without a name."""
    if isinstance(tree, dict | spaces.Dict):
        return dict(tree.items())
    if isinstance(tree, tuple | spaces.Tuple):
        return {str(i): part for i, part in enumerate(tree)}
    return {"": tree}


def mask_heads(space: gymnasium.Space, start: int = 0) -> list[slice]:
    """Where the choices of an action space lie in its flat mask, one slice per head; continuous parts have none.

    >>> mask_heads(spaces.MultiDiscrete([3, 2]))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        heads = []
        for part in space.values() if isinstance(space, spaces.Dict) else space:
            heads += mask_heads(part, start)
            start += int(spaces.flatdim(part))
        return heads
    sizes = [space.n] if isinstance(space, spaces.Discrete) else space.nvec.ravel() if isinstance(space, spaces.MultiDiscrete) else []
    ends = [start + int(end) for end in np.cumsum(sizes)]
    return [slice(end - int(size), end) for size, end in zip(sizes, ends, strict=True)]


def mask_allows(space: gymnasium.Space, mask: Bool[Any, "*B A"]) -> Bool[Any, "*B"]:
    """Whether the flat mask leaves every head of the action space at least one choice."""
    allowed = [mask[..., head].any(-1) for head in mask_heads(space)]
    return np.logical_and.reduce(allowed) if isinstance(mask, np.ndarray) else jnp.stack(allowed).all(0)


def clip_action(space: gymnasium.Space, action: PyTree) -> PyTree:
    """A continuous action moved to the nearest one inside its Box; other actions as they are."""
    if isinstance(space, spaces.Box):
        return np.clip(action, space.low, space.high) if isinstance(action, np.ndarray) else jnp.clip(action, space.low, space.high)
    if isinstance(space, spaces.Dict):
        return {name: clip_action(part, action[name]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(clip_action(part, part_action) for part, part_action in zip(space, action, strict=True))
    return action


def random_action(space: gymnasium.Space, key: PRNGKeyArray, mask: Bool[Array | np.ndarray, " A"] | None = None) -> PyTree:
    """A random action, legal under the mask: uniform, except for parts of a Box without bounds, which are drawn from a normal distribution.

    >>> int(random_action(spaces.Discrete(3), jax.random.key(0), jnp.array([False, True, False])))
    1
    """
    heads = mask_heads(space)
    if mask is not None and jnp.shape(mask) != (spaces.flatdim(space),):
        raise ShapeError(
            f"random_action: mask has shape {jnp.shape(mask)}; for {space} it must be ({spaces.flatdim(space)},). For many environments "
            f"use jax.vmap."
        )
    if mask is not None and heads and is_concrete(mask) and not mask_allows(space, mask):
        raise EnvError(f"random_action: mask = {mask} allows nothing; leave each head of {space} at least one choice.")
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return _random_parts(space, key, mask)
    if isinstance(space, spaces.Box):
        return _random_in_box(space, key)
    if not heads:
        raise EnvError(f"random_action: {space} is not an action space rl4jax knows. Use Discrete, MultiDiscrete, Box, Dict or Tuple.")
    logits = jnp.zeros(heads[-1].stop) if mask is None else jnp.where(mask, 0.0, -jnp.inf)
    keys = jax.random.split(key, len(heads))
    choice = jnp.stack([jax.random.categorical(k, logits[head]) for k, head in zip(keys, heads, strict=True)]).astype(jnp.int32)
    return choice[0] if isinstance(space, spaces.Discrete) else choice.reshape(space.shape)


def _random_parts(space: gymnasium.Space, key: PRNGKeyArray, mask: Bool[Array | np.ndarray, " A"] | None) -> PyTree:
    parts: list[gymnasium.Space] = list(space.values() if isinstance(space, spaces.Dict) else space)  # pyright: ignore[reportArgumentType]
    ends = np.cumsum([int(spaces.flatdim(part)) for part in parts])
    masks = (
        [None] * len(parts) if mask is None else np.split(mask, ends[:-1]) if isinstance(mask, np.ndarray) else jnp.split(mask, ends[:-1])
    )
    keys = jax.random.split(key, len(parts))
    drawn = [random_action(part, k, m) for part, k, m in zip(parts, keys, masks, strict=True)]
    return dict(zip(space.keys(), drawn, strict=True)) if isinstance(space, spaces.Dict) else tuple(drawn)


def _random_in_box(space: spaces.Box, key: PRNGKeyArray) -> Array:
    """Uniform between two bounds, half a normal distribution from one, a whole one without any."""
    dtype = jax_dtype(space.dtype)
    if dtype.kind in "iu":
        low, high = (np.clip(bound, -(2**31), 2**31 - 2).astype(np.int32) for bound in (space.low, space.high))
        return jax.random.randint(key, space.shape, low, high + 1).astype(dtype)
    uniform_key, normal_key = jax.random.split(key)
    share, normal = jax.random.uniform(uniform_key, space.shape), jax.random.normal(normal_key, space.shape)
    below, above = np.isfinite(space.low), np.isfinite(space.high)
    low, high = np.where(below, space.low, 0.0).astype(np.float32), np.where(above, space.high, 0.0).astype(np.float32)
    one_sided = jnp.where(below, low + jnp.abs(normal), high - jnp.abs(normal))
    value = jnp.where(below & above, low * (1 - share) + high * share, jnp.where(below | above, one_sided, normal))
    return jnp.clip(value, space.low, space.high).astype(dtype)
