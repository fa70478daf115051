"""A bundle on JAX: the compiled program that was traced when it was exported, and the weights beside it."""

from pathlib import Path

import numpy as np

from rl4jax.core.errors import missing_package

from .bundle import STABLEHLO, WEIGHTS, Config, read_file
from .codec import Arrays
from .errors import BundleError, printable
from .policy import Engine

try:
    import flatbuffers  # noqa: F401 (jax.export reads programs with it, and does not bring it)
    import jax
    from jax import export
    from jax.tree_util import all_leaves
    from safetensors.numpy import load as load_weights

    from .native_calls import native_calls
except ImportError as error:
    raise missing_package("deploy.load(runtime='jax')", "jax", "safetensors", "flatbuffers") from error


def make_engine(folder: Path, config: Config) -> Engine:
    data = read_file(folder, config, STABLEHLO)
    try:
        exported = export.deserialize(bytearray(data))
        calls = native_calls(exported)
        (weights, *_), _ = jax.tree.unflatten(exported.in_tree, exported.in_avals)
        if not isinstance(weights, dict) or not all_leaves(weights.values()):
            raise ValueError("its first argument is not the weights by name.")
        wanted = {name: (x.shape, x.dtype) for name, x in weights.items()}
    except Exception as error:
        raise BundleError(f"{folder / STABLEHLO} is no program that JAX can run: {printable(error)}") from error
    if calls:
        raise BundleError(f"{folder / STABLEHLO} calls {', '.join(calls)}, which no exported policy does. Do not trust this bundle.")
    weights, every = jax.device_put(read_weights(folder, config, wanted)), [port["name"] for port in config["outputs"]]
    call = jax.jit(exported.call)

    def engine(inputs: Arrays, names: list[str]) -> Arrays:
        ordered = [inputs[port["name"]] for port in config["inputs"]]
        return {name: np.asarray(x) for name, x in zip(every, call(weights, *ordered), strict=True) if name in names}

    return engine


def read_weights(folder: Path, config: Config, wanted: dict[str, tuple[tuple[int, ...], np.dtype]]) -> Arrays:
    """The weights, if they have the names, shapes and dtypes that the program wants."""
    data = read_file(folder, config, WEIGHTS)
    try:
        weights = load_weights(data)
    except Exception as error:
        raise BundleError(f"{folder / WEIGHTS} cannot be read: {printable(error)}. Export the policy again.") from error
    found = {name: (x.shape, x.dtype) for name, x in weights.items()}
    if found != wanted:
        name = min(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        got, want = (f"{of[name][1]} {of[name][0]}" if name in of else "not there" for of in (found, wanted))
        raise BundleError(
            f"{folder / WEIGHTS} does not fit {STABLEHLO}: {name!r} is {got}, but in the program {want}. Export the policy again."
        )
    return weights
