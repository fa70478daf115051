"""Between an environment's own observations and actions and the arrays of a program, by what a bundle says of the spaces. NumPy only."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rl4jax.core.errors import ShapeError

SpaceSpec = dict[str, Any]  # what `space_spec` writes: JSON
MASK = "action_mask"  # where some environments have it among their observations
Arrays = dict[str, np.ndarray]  # by the name of the port
CHOICES = ("Discrete", "MultiDiscrete", "MultiBinary")  # spaces that have fewer numbers than their dtype
LOOK = "Look at where it comes from."


def leaves(spec: SpaceSpec, x: Any, name: str) -> list[tuple[SpaceSpec, Any, str]]:
    """The parts of an element, each with its space and a name for messages."""
    if spec["type"] == "Dict":
        if not isinstance(x, dict) or not set(spec["spaces"]) <= set(x):
            got = f"a dict of {sorted(map(str, x))}" if isinstance(x, dict) else f"a {type(x).__name__}"
            raise ShapeError(f"{name} is {got}; it must be a dict of {sorted(spec['spaces'])}.")
        return [leaf for key, part in spec["spaces"].items() for leaf in leaves(part, x[key], f"{name}[{key!r}]")]
    if spec["type"] == "Tuple":
        if not isinstance(x, tuple | list) or len(x) != len(spec["spaces"]):
            raise ShapeError(f"{name} is {type(x).__name__}; it must be a tuple of {len(spec['spaces'])} parts.")
        return [leaf for i, part in enumerate(spec["spaces"]) for leaf in leaves(part, x[i], f"{name}[{i}]")]
    return [(spec, x, name)]


def leaf_specs(spec: SpaceSpec) -> list[SpaceSpec]:
    """The spaces of the parts, in the order of `leaves`."""
    if spec["type"] not in ("Dict", "Tuple"):
        return [spec]
    parts = spec["spaces"].values() if spec["type"] == "Dict" else spec["spaces"]
    return [leaf for part in parts for leaf in leaf_specs(part)]


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
    is_float, ndim, is_choice = dtype.kind == "f", len(shape), leaf.get("type") in CHOICES
    low, high = (0, 0) if is_float else bounds(leaf)

    def read(x: Any) -> np.ndarray:
        fits = type(x) is np.ndarray and x.dtype == dtype and start is None
        fits = fits and (x.shape == shape or (x.ndim == ndim + 1 and x.shape[1:] == shape and len(x) > 0))
        given = x if fits else as_array(x, leaf["shape"], name, leaf["dtype"])
        if not is_float and (is_choice or not fits) and not (inside := (given >= low) & (given <= high)).all():
            where = first_where(~inside)
            least, most = (np.broadcast_to(bound, given.shape)[where] for bound in (low, high))
            raise ShapeError(f"{name}{list(where) or ''} = {given[where]} must be from {least} to {most}. {LOOK}")
        if not fits:
            with np.errstate(over="ignore"):
                x = (given if start is None else np.asarray(given - np.asarray(start))).astype(dtype)  # always a copy
        # Squares add up to a finite number, or one of them is too large, or none at all: much quicker than a look at each.
        if is_float and not math.isfinite(np.vdot(x, x)) and not np.isfinite(x).all():
            where = first_where(~np.isfinite(x))
            bad = f"{name}{list(where) or ''} = {given[where]}"
            raise ShapeError(f"{name} has a number that is not finite, or too large for {dtype}: {bad}. {LOOK}")
        return x

    return read


def bounds(leaf: SpaceSpec) -> tuple[Any, Any]:
    """The smallest and largest integer that the program understands, as the environment counts."""
    start = np.asarray(leaf.get("start", 0))
    if leaf.get("type") in ("Discrete", "MultiDiscrete"):
        return start, start + np.asarray(leaf["n"] if leaf["type"] == "Discrete" else leaf["nvec"]) - 1
    if leaf.get("type") == "MultiBinary" or leaf["dtype"] == "bool":
        return 0, 1
    return np.iinfo(leaf["dtype"]).min, np.iinfo(leaf["dtype"]).max


def first_where(found: Any) -> tuple[int, ...]:
    return tuple(np.argwhere(found)[0].tolist())


def as_array(x: Any, shape: list[int], name: str, dtype: str) -> np.ndarray:
    """Numbers of one example, or of a batch of them."""
    try:
        array = np.asarray(x)
        if array.dtype == object and set(map(type, array.flat)) <= {int, float}:  # with more digits than 64 bits have
            array = array.astype(np.float64)
    except Exception as error:  # whatever somebody's own array raises
        raise ShapeError(f"{name} is no array: {str(error).rstrip('.')}. Give numbers, in lists of one length or in an array.") from error
    kinds = {"f": "fiu", "i": "iu", "u": "iu", "b": "biu"}[np.dtype(dtype).kind]
    if array.dtype.kind not in kinds:
        raise ShapeError(f"{name} is of {array.dtype}; it must be of {dtype}.")
    if (array.shape != tuple(shape) and array.shape[1:] != tuple(shape)) or array.ndim not in (len(shape), len(shape) + 1):
        raise ShapeError(f"{name} has shape {array.shape}; it must be {tuple(shape)}, or (B, {', '.join(map(str, shape))}) for a batch.")
    if array.ndim > len(shape) and len(array) == 0:
        raise ShapeError(f"{name} is an empty batch. Give one example, or a batch of at least one.")
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
    rounds = spec["type"] == "Box" and dtype.kind == "f" and dtype != spec["dtype"]  # 0.1 of 32 bits is more than that of 64
    low, high = (box_bound(spec.get(side), dtype, none) for side, none in (("low", -np.inf), ("high", np.inf))) if rounds else (None, None)

    def decode(outputs: Arrays) -> np.ndarray:
        x = outputs[port]
        x = x.astype(dtype, copy=False) if x.shape[1:] == shape else x.reshape(len(x), *shape).astype(dtype)
        x = np.clip(x, low, high) if rounds else x
        return x if start is None else x + start

    return decode


def box_bound(bound: Any, dtype: np.dtype, none: float) -> np.ndarray:
    """A bound of a Box as a bundle has it: null where there is none."""
    with np.errstate(over="ignore"):  # of 16 bits: infinite
        numbers = np.asarray(bound, np.float64).astype(dtype)  # NaN where it is null
    return np.where(np.isnan(numbers), dtype.type(none), numbers)
