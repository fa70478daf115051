"""A program as ONNX, by jax2onnx, with names that say what is what."""

import contextlib
import logging
import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import jax
import numpy as np

from rl4jax.core.errors import Rl4JaxError, missing_extra

from .jaxpr import as_function, operations
from .onnx_biases import with_biases
from .program import Port, Program

if TYPE_CHECKING:
    import onnx


class ExportError(Rl4JaxError):
    """A policy that cannot leave JAX, or that does something else outside."""


def to_onnx(program: Program) -> "onnx.ModelProto":
    """The program for a batch of any size, its weights inside."""
    one = [jax.ShapeDtypeStruct(port.shape, np.dtype(port.dtype)) for port in program.inputs]
    traced = jax.make_jaxpr(lambda *inputs: program.step(program.packed, *inputs))(*one)
    with _quietly(), _restored():
        try:
            import jax2onnx
        except ImportError as error:
            raise missing_extra("Export to ONNX", extra="onnx") from error
        try:
            model = jax2onnx.to_onnx(
                jax.vmap(as_function(traced)),
                [Batch(port) for port in program.inputs],
                model_name="policy",
                input_names=[port.name for port in program.inputs],
                output_names=[port.name for port in program.outputs],
            )
        except Exception as error:  # of many kinds, by what jax2onnx met
            raise ExportError(_explain(error, sorted(operations(traced.jaxpr)))) from error
    del model.graph.value_info[:]  # jax2onnx gets some ranks wrong; whoever runs it infers them
    return with_biases(model)


class Batch:
    """Shape and dtype of many examples, the way jax2onnx asks for them."""

    def __init__(self, port: Port):
        self.shape, self.dtype = ("batch", *port.shape), np.dtype(port.dtype)


def _explain(error: Exception, names: list[str]) -> str:
    """Which operation it was, as far as jax2onnx says, and what can be done."""
    text = str(error)
    unknown = re.search(r"No plugins? registered for primitive '?\"?([\w.]+)", text)
    why = f"ONNX has no {unknown[1]!r}" if unknown else f"jax2onnx said {type(error).__name__}: {text.splitlines()[0] if text else ''}"
    return f"to_onnx: this policy cannot be exported: {why}. Its operations are {', '.join(names)}. Write the model without that one."


@contextlib.contextmanager
def _restored() -> Iterator[None]:
    """Put JAX's functions back: jax2onnx replaces them while it traces, and 0.17 forgets one, `jnp.cumsum`."""
    modules = (jax, jax.numpy, jax.nn, jax.lax, jax.random)
    before = [dict(vars(module)) for module in modules]
    try:
        yield
    finally:
        for module, names in zip(modules, before, strict=True):
            for name, value in names.items():
                if vars(module).get(name) is not value:
                    setattr(module, name, value)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without the converter's remarks about itself."""
    logger = logging.getLogger("onnx_ir")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
