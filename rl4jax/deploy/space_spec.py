"""A Gymnasium space as JSON, with the port of the program that each part goes to or comes from."""

from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces

from rl4jax.core.leaf_names import leaves_by_name
from rl4jax.core.spaces import struct_of

from .codec import SpaceSpec

KINDS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def space_spec(own: gymnasium.Space, shown: gymnasium.Space, port: str) -> SpaceSpec:
    """The environment's own space, and how the program sees it: `shown`, which counts from 0 and has 32 bits."""
    names = list(leaves_by_name({port: struct_of(shown)})[0])
    ports = jax.tree.unflatten(jax.tree.structure({port: struct_of(shown)}), names)
    return _spec(own, shown, ports[port])


def _spec(own: Any, shown: Any, ports: Any) -> SpaceSpec:
    if isinstance(own, spaces.Dict):
        return {"type": "Dict", "spaces": {key: _spec(own[key], shown[key], ports[key]) for key in own}}
    if isinstance(own, spaces.Tuple):
        return {"type": "Tuple", "spaces": [_spec(*parts) for parts in zip(own, shown, ports, strict=True)]}
    struct = struct_of(shown)
    kind = next(kind for kind in KINDS if issubclass(type(own), kind))  # not of a subclass: whoever reads it has only these
    spec = {
        "type": kind.__name__, "port": ports, "shape": list(struct.shape), "dtype": np.dtype(struct.dtype).name,
        "own_shape": list(own.shape), "own_dtype": np.dtype(own.dtype).name,
    }  # fmt: skip
    if isinstance(own, spaces.Box):
        spec |= {"low": _bound(own.low), "high": _bound(own.high)}
    if isinstance(own, spaces.Discrete):
        spec |= {"n": int(own.n)}
    if isinstance(own, spaces.MultiDiscrete):
        spec |= {"nvec": own.nvec.tolist()}
    start = getattr(own, "start", 0)
    return spec | ({"start": np.asarray(start).tolist()} if np.any(start) else {})


def _bound(x: np.ndarray) -> Any:
    """One number if all are the same; null where there is no bound."""
    x = x.astype(int) if x.dtype == bool else x
    if x.size and (x == x.flat[0]).all():
        return float(x.flat[0]) if np.isfinite(x.flat[0]) else None
    return np.where(np.isfinite(x), x.astype(object), np.array(None)).tolist()
