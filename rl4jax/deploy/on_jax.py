"""A bundle on JAX: the compiled program that was traced when it was exported, and the weights beside it."""

from pathlib import Path

import jax
import numpy as np
from jax import export
from safetensors.numpy import load as load_weights

from .bundle import STABLEHLO, WEIGHTS, BundleError, Config, read_file
from .codec import Arrays
from .policy import Engine
from .program import Program

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def make_engine(folder: Path, config: Config) -> Engine:
    try:
        call = jax.jit(export.deserialize(bytearray(read_file(folder, config, STABLEHLO))).call)
        weights = load_weights(read_file(folder, config, WEIGHTS))
    except BundleError:
        raise
    except Exception as error:
        raise BundleError(f"{folder / STABLEHLO} is no program that JAX can run: {error}") from error
    weights = jax.device_put(weights)
    every = [port["name"] for port in config["outputs"]]

    def engine(inputs: Arrays, names: list[str]) -> Arrays:
        ordered = [inputs[port["name"]] for port in config["inputs"]]
        return {name: np.asarray(x) for name, x in zip(every, call(weights, *ordered), strict=True) if name in names}

    return engine


def to_stablehlo(program: Program) -> bytes:
    """The program for a batch of any size, for every platform; its weights are an argument."""
    (batch,) = export.symbolic_shape("batch")

    def many(weights: dict[str, jax.Array], *inputs: jax.Array) -> list[jax.Array]:
        packed = program.with_weights(weights)
        return jax.vmap(lambda *one: program.step(packed, *one))(*inputs)

    inputs = [jax.ShapeDtypeStruct((batch, *port.shape), np.dtype(port.dtype)) for port in program.inputs]
    weights = {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in program.weights.items()}
    return bytes(export.export(jax.jit(many), platforms=PLATFORMS)(weights, *inputs).serialize())
