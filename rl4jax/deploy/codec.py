"""Between an environment's own observations and actions and the arrays of a program, by what a bundle says of the spaces. NumPy only."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rl4jax.core.errors import ShapeError

SpaceSpec = dict[str, Any]  # what `space_spec` writes: JSON
Arrays = dict[str, np.ndarray]  # by the name of the port


def leaves(spec: SpaceSpec, x: Any, name: str) -> list[tuple[SpaceSpec, Any, str]]:
    """The parts of an element, each with its space and a name for messages."""
    if spec["type"] == "Dict":
        if not isinstance(x, dict) or not set(spec["spaces"]) <= set(x):
            got = f"a dict of {sorted(x)}" if isinstance(x, dict) else f"a {type(x).__name__}"
            raise ShapeError(f"{name} is {got}; it must be a dict of {sorted(spec['spaces'])}.")
        return [leaf for key, part in spec["spaces"].items() for leaf in leaves(part, x[key], f"{name}[{key!r}]")]
    if spec["type"] == "Tuple":
        if not isinstance(x, tuple | list) or len(x) != len(spec["spaces"]):
            raise ShapeError(f"{name} is {type(x).__name__}; it must be a tuple of {len(spec['spaces'])} parts.")
        return [leaf for i, part in enumerate(spec["spaces"]) for leaf in leaves(part, x[i], f"{name}[{i}]")]
    return [(spec, x, name)]


def encoder(spec: SpaceSpec) -> Callable[[Any], tuple[Arrays, bool]]:
    """What makes observations into what a program takes, with a batch axis, and says whether they came with one."""
    if spec["type"] in ("Dict", "Tuple"):
        return parts_encoder(spec)
    read, port, ndim = reader(spec, "obs"), spec["port"], len(spec["shape"])

    def encode(obs: Any) -> tuple[Arrays, bool]:
        array = read(obs)
        return ({port: array}, True) if array.ndim > ndim else ({port: array[None]}, False)

    return encode


def parts_encoder(spec: SpaceSpec) -> Callable[[Any], tuple[Arrays, bool]]:
    readers: dict[str, Callable[[Any], np.ndarray]] = {}  # by port, each made when it is first needed

    def encode(obs: Any) -> tuple[Arrays, bool]:
        parts = []
        for leaf, x, name in leaves(spec, obs, "obs"):
            read = readers.get(leaf["port"]) or readers.setdefault(leaf["port"], reader(leaf, name))
            parts.append((leaf, read(x)))
        batched = {array.ndim > len(leaf["shape"]) for leaf, array in parts}
        if len(batched) > 1:
            raise ShapeError("obs: some parts have a batch axis and some have none. Give one observation, or a batch of each part.")
        if batched == {False}:
            return {leaf["port"]: array[None] for leaf, array in parts}, False
        sizes = {len(array) for _, array in parts}
        if len(sizes) > 1:
            raise ShapeError(f"obs: parts have batches of {sorted(sizes)}; all must be of one size.")
        return {leaf["port"]: array for leaf, array in parts}, True

    return encode


def reader(leaf: SpaceSpec, name: str) -> Callable[[Any], np.ndarray]:
    """What checks one part and gives it the dtype of the program. An array that is right already costs next to nothing."""
    shape, dtype, start = tuple(leaf["shape"]), np.dtype(leaf["dtype"]), leaf.get("start")
    is_float, ndim = dtype.kind == "f", len(leaf["shape"])

    def read(x: Any) -> np.ndarray:
        fits = type(x) is np.ndarray and x.dtype == dtype and start is None
        if not (fits and (x.shape == shape or (x.ndim == ndim + 1 and x.shape[1:] == shape))):
            given = as_array(x, leaf["shape"], name, leaf["dtype"])
            given = given if start is None else np.asarray(given - np.asarray(start))
            with np.errstate(over="ignore"):
                x = given.astype(dtype)  # always a copy
            if dtype.kind in "iu" and (x != given).any():
                raise ShapeError(f"{name} has a number that {dtype} cannot hold. Look at where it comes from.")
        # Squares add up to a finite number, or one of them is too large, or none at all: much quicker than a look at each.
        if is_float and not math.isfinite(np.vdot(x, x)) and not np.isfinite(x).all():
            raise ShapeError(f"{name} has a number that is not finite, or too large for {dtype}. Look at where it comes from.")
        return x

    return read


def as_array(x: Any, shape: list[int], name: str, dtype: str) -> np.ndarray:
    """Numbers of one example, or of a batch of them."""
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise ShapeError(f"{name} is no array: {error}.") from error
    kinds = {"f": "fiu", "i": "iu", "u": "iu", "b": "biu"}[np.dtype(dtype).kind]
    if array.dtype.kind not in kinds:
        raise ShapeError(f"{name} is of {array.dtype}; it must be of {dtype}.")
    if (array.shape != tuple(shape) and array.shape[1:] != tuple(shape)) or array.ndim not in (len(shape), len(shape) + 1):
        raise ShapeError(f"{name} has shape {array.shape}; it must be {tuple(shape)}, or (B, {', '.join(map(str, shape))}) for a batch.")
    return array


def decoder(spec: SpaceSpec) -> Callable[[Arrays], Any]:
    """What makes actions, as the environment takes them, of a program's outputs: with a batch axis."""
    if spec["type"] == "Dict":
        parts = {key: decoder(part) for key, part in spec["spaces"].items()}
        return lambda outputs: {key: part(outputs) for key, part in parts.items()}
    if spec["type"] == "Tuple":
        in_order = [decoder(part) for part in spec["spaces"]]
        return lambda outputs: tuple(part(outputs) for part in in_order)
    port, dtype, shape = spec["port"], np.dtype(spec["own_dtype"]), tuple(spec["own_shape"])
    start = np.asarray(spec["start"], dtype) if "start" in spec else None

    def decode(outputs: Arrays) -> np.ndarray:
        x = outputs[port]
        x = x.astype(dtype, copy=False) if x.shape[1:] == shape else x.reshape(len(x), *shape).astype(dtype)
        return x if start is None else x + start

    return decode
