"""A program as JAX traced it, for its own runtime."""

import jax
import numpy as np
from jax import export

from .errors import ExportError
from .native_calls import native_calls
from .program import Program

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
FRAMES = "jax_traceback_in_locations_limit"


def to_stablehlo(program: Program) -> bytes:
    """The program for a batch of any size, for every platform; its weights are an argument."""
    (batch,) = export.symbolic_shape("batch")

    def many(weights: dict[str, jax.Array], *inputs: jax.Array) -> list[jax.Array]:
        packed = program.with_weights(weights)
        return jax.vmap(lambda *one: program.step(packed, *one))(*inputs)

    inputs = [jax.ShapeDtypeStruct((batch, *port.shape), np.dtype(port.dtype)) for port in program.inputs]
    weights = {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in program.weights.items()}
    frames = getattr(jax.config, FRAMES)
    jax.config.update(FRAMES, 0)  # the paths of the source files are nobody's business
    try:
        exported = export.export(jax.jit(many), platforms=PLATFORMS)(weights, *inputs)
    finally:
        jax.config.update(FRAMES, frames)
    if calls := native_calls(exported):
        raise ExportError(f"deploy.export: this policy cannot be exported: it calls {', '.join(calls)}. Write the model without them.")
    return bytes(exported.serialize())
