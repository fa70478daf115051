"""Trees of arrays on disk: one safetensors file each, never pickle, so that loading a stranger's file runs no code.

A tensor is named by its place in the tree, such as `params.layers.0.weight`, and any safetensors reader can open the file. One entry
of the header, `rl4jax.checkpoint`, holds a SHA-256 of the whole file (taken with zeros in the place of the sum itself) and then JSON:
format version, library versions, the kinds of PRNG keys, the user's metadata.
"""

import difflib
import hashlib
import importlib.metadata
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from jax.core import Tracer
from jaxtyping import PyTree

from .atomic import to_json, write_atomic
from .errors import CheckpointError, require

_VERSION = 1  # a later version keeps the place and rule of the sum, so that damage can be told from age
_MARK = "rl4jax.checkpoint"
_START = f'{{"__metadata__":{{"{_MARK}":"'.encode()
_SUM = slice(8 + len(_START), 8 + len(_START) + 64)
_MAX_LINES = 20
_NUMBERS = {bool: np.dtype(bool), int: np.dtype(np.int64), float: np.dtype(np.float64), complex: np.dtype(np.complex128)}
_STORED = jax.Array | jax.ShapeDtypeStruct | np.ndarray | np.generic | bool | int | float | complex
_DTYPES = {code: np.dtype(name) for code, name in {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64", "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
}.items()}  # fmt: skip


def save(path: str | os.PathLike[str], tree: PyTree, *, metadata: Mapping[str, Any] | None = None) -> None:
    """Write the arrays and numbers of a tree to one `.safetensors` file; the old file stays until the new one is whole.

    Typed PRNG keys are arrays too. Other leaves, such as activation functions, belong to the structure: they are not stored, and
    `load` takes them from `like`. The metadata are anything that JSON can hold.
    """
    require(os.fspath(path).endswith(".safetensors"), "save: path", path, "a path ending in .safetensors")
    write_atomic(Path(path), _encode(tree, dict(metadata or {})))


def load(path: str | os.PathLike[str], like: PyTree) -> PyTree:
    """Read a tree, bit by bit as it was saved, with the structure of `like`.

    Leaves of `like` are arrays or `jax.ShapeDtypeStruct`, whose values do not matter; each comes back as what it is there: a JAX array,
    a NumPy array or a Python number. Anyone's safetensors file will do as long as names, shapes and dtypes fit.
    """
    return fit(read(path), like)


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The metadata that a file was saved with."""
    return user_metadata(read(path))


class Contents(NamedTuple):
    """What an undamaged file holds."""

    path: Path
    tensors: dict[str, np.ndarray]
    about: dict[str, Any]  # version, keys and metadata


def read(path: str | os.PathLike[str]) -> Contents:
    """Read a file and check that it is whole, whatever tree or version it holds."""
    path = Path(path)
    try:
        if not path.is_file():  # also said of pipes, on which reading would wait for ever
            raise CheckpointError(f"{path} {'is not a file' if path.exists() else 'does not exist'}.")
        with path.open("rb") as file:
            raw = file.read(9)
            if raw[8:] != b"{":  # before a large file of another kind is read whole
                raise CheckpointError(f"{path} is not a safetensors file, or is cut short.")
            raw += file.read()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}.") from error
    try:
        return _decode(path, raw)
    except (safetensors.SafetensorError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged, or not a safetensors file: {error}.") from error


def user_metadata(contents: Contents) -> dict[str, Any]:
    _check_version(contents)
    return contents.about["metadata"]


def fit(contents: Contents, like: PyTree) -> PyTree:
    """The contents as a tree with the structure of `like`."""
    _check_version(contents)
    names, leaves, structure = _flatten(like)
    wanted = {name: leaf for name, leaf in zip(names, leaves, strict=True) if name is not None}
    found: dict[str, Any] = dict(contents.tensors)
    try:
        found |= {name: jax.random.wrap_key_data(found[name], impl=kind) for name, kind in contents.about["keys"].items()}
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"{contents.path} has PRNG keys that this JAX does not know: {error}.") from error
    if lines := _differences(found, wanted):
        more = [f"and {len(lines) - _MAX_LINES} more"] if len(lines) > _MAX_LINES else []
        text = "\n  ".join([f"{contents.path} does not fit `like`. Differences: {len(lines)}.", *lines[:_MAX_LINES], *more])
        raise CheckpointError(f"{text}\nMake `like` with the settings of the run that saved the file.")
    on_host = {name for name, leaf in wanted.items() if not isinstance(leaf, jax.Array | jax.ShapeDtypeStruct)}
    arrays = jax.device_put({name: x for name, x in found.items() if name not in on_host})  # all at once
    restored = {name: _like_host(found[name], wanted[name]) for name in on_host} | arrays
    return structure.unflatten([leaf if name is None else restored[name] for name, leaf in zip(names, leaves, strict=True)])


def _encode(tree: PyTree, metadata: dict[str, Any]) -> bytes:
    names, leaves, _ = _flatten(tree)
    stored = {name: leaf for name, leaf in zip(names, leaves, strict=True) if name is not None}
    for name, leaf in stored.items():
        if isinstance(leaf, Tracer | jax.ShapeDtypeStruct):
            raise CheckpointError(f"save: {name} is a {type(leaf).__name__}, which has no value yet. Save outside of jit, vmap and scan.")
    keys = {name: str(jax.random.key_impl(leaf)) for name, leaf in stored.items() if _is_key(leaf)}
    host = jax.device_get({name: jax.random.key_data(leaf) if name in keys else leaf for name, leaf in stored.items()})  # all at once
    about = {
        "format": _MARK,  # a second time, so that a flipped bit in the first cannot pass for a file that is not ours
        "version": _VERSION,
        "versions": {"rl4jax": importlib.metadata.version("rl4jax"), "jax": jax.__version__, "numpy": np.__version__},
        "keys": keys,
        "metadata": metadata,
    }
    text = to_json("save: metadata", about)
    raw = safetensors.numpy.save({name: _to_numpy(name, x) for name, x in host.items()}, {_MARK: "0" * 64 + text})
    return raw[: _SUM.start] + _checksum(raw) + raw[_SUM.stop :]


def _decode(path: Path, raw: bytes) -> Contents:
    entries = safetensors.deserialize(raw)  # checks all lengths
    header = raw[8 : 8 + int.from_bytes(raw[:8], "little")]
    metadata = json.loads(header).get("__metadata__") or {}
    about = {"version": _VERSION, "keys": {}, "metadata": metadata}  # of a file that is not ours
    if _MARK.encode() in header:
        if not raw.startswith(_START, 8) or _checksum(raw) != raw[_SUM]:
            raise ValueError("the checksum is wrong")
        about |= json.loads(metadata[_MARK][64:])
    if not isinstance(about["metadata"], dict):
        raise TypeError("its metadata are no dict")
    tensors = {}
    for name, x in entries:
        if x["dtype"] not in _DTYPES:
            raise ValueError(f"{name} has dtype {x['dtype']}, which NumPy and JAX do not have")
        tensors[name] = np.ndarray(x["shape"], _DTYPES[x["dtype"]], x["data"])
    return Contents(path, tensors, about)


def _checksum(raw: bytes) -> bytes:
    digest = hashlib.sha256(raw[: _SUM.start])
    digest.update(b"0" * 64)
    digest.update(memoryview(raw)[_SUM.stop :])
    return digest.hexdigest().encode()


def _check_version(contents: Contents) -> None:
    version = contents.about.get("version")
    if version != _VERSION:
        raise CheckpointError(f"{contents.path} has format version {version}; this rl4jax reads {_VERSION}. Update rl4jax.")


def _flatten(tree: PyTree) -> tuple[list[str | None], list[Any], Any]:
    """The leaves, each with its name, or None if it belongs to the structure."""
    pairs, structure = jax.tree_util.tree_flatten_with_path(tree)
    leaves = [leaf for _, leaf in pairs]
    names = [(jax.tree_util.keystr(p, simple=True, separator=".") or "value") if isinstance(leaf, _STORED) else None for p, leaf in pairs]
    for name, count in Counter(names).items():
        if name is not None and (count > 1 or name == "__metadata__" or name.encode(errors="ignore").decode() != name):
            raise CheckpointError(f"The tree has {count} leaves called {name!r}, which a file cannot hold. Rename that field or dict key.")
    return names, leaves, structure


def _spec(leaf: Any) -> tuple[Any, tuple[int, ...]]:
    """The dtype and shape of a leaf, as they are in a file."""
    if not isinstance(leaf, jax.Array | jax.ShapeDtypeStruct | np.ndarray | np.generic):
        return next(dtype for kind, dtype in _NUMBERS.items() if isinstance(leaf, kind)), ()
    if isinstance(leaf, jax.ShapeDtypeStruct) and not _is_key(leaf):  # may name a dtype that JAX would narrow to 32 bits
        return jax.dtypes.canonicalize_dtype(leaf.dtype), leaf.shape
    return (leaf.dtype.newbyteorder("=") if isinstance(leaf, np.ndarray) else leaf.dtype), leaf.shape


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _to_numpy(name: str, x: Any) -> np.ndarray:
    dtype, _ = _spec(x)
    if dtype not in _DTYPES.values():
        raise CheckpointError(f"save: {name} has dtype {dtype}, which safetensors does not have. Convert it, for example to float32.")
    try:
        return np.asarray(x, dtype, order="C")
    except OverflowError as error:
        raise CheckpointError(f"save: {name} = {x} does not fit into 64 bits.") from error


def _like_host(x: np.ndarray, like: Any) -> Any:
    if isinstance(like, np.ndarray):
        return x
    return x[()] if isinstance(like, np.generic) else type(like)(x.item())


def _differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """One line per name that is missing, unexpected or of another shape or dtype."""
    extra = {name: _show(x) for name, x in found.items() if name not in wanted}
    lines = []
    for name, leaf in wanted.items():
        if name not in found:
            same = [other for other, spec in extra.items() if spec == _show(leaf)] if len(lines) < _MAX_LINES else []
            near = difflib.get_close_matches(name, same, n=1, cutoff=0.5)
            lines.append(f"missing in the file: {name} {_show(leaf)}" + (f" (renamed? the file has {near[0]})" if near else ""))
        elif _spec(found[name]) != _spec(leaf):
            lines.append(f"differs: {name} is {_show(found[name])} in the file and {_show(leaf)} in `like`")
    return lines + [f"unexpected in the file: {name} {spec}" for name, spec in extra.items()]


def _show(leaf: Any) -> str:
    dtype, shape = _spec(leaf)
    return f"{dtype}[{','.join(map(str, shape))}]"
