"""A program as ONNX, by jax2onnx, with names that say what is what."""

import contextlib
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.extend.core as jex
import numpy as np

from .blame import blamed
from .bundle import IR_VERSION, OPSET
from .errors import ExportError
from .jaxpr import as_function, operations
from .onnx_biases import with_biases
from .program import Port, Program

if TYPE_CHECKING:
    import onnx


def to_onnx(program: Program) -> "onnx.ModelProto":
    """The program for a batch of any size, its weights inside."""
    function = with_own_outputs(as_function(trace(program)))
    try:
        model = convert(function, program.inputs, program.outputs)
    except Exception as error:  # of many kinds, by what jax2onnx met
        unknown = re.search(r"No plugins? registered for primitive '?\"?([\w.]+)", str(error))
        raise cannot_export(program, f"ONNX has no {unknown[1]!r}" if unknown else f"jax2onnx said {first_line(error)}") from error
    del model.graph.value_info[:]  # jax2onnx gets some ranks wrong; whoever runs it infers them
    return with_biases(model)


def convert(function: Callable[..., list[Any]], inputs: Sequence[Port], outputs: Sequence[Port]) -> "onnx.ModelProto":
    """A function of one example as ONNX for a batch of any size."""
    with _quietly(), _restored():
        import jax2onnx  # takes seconds

        model = jax2onnx.to_onnx(
            jax.vmap(function),
            [Batch(port) for port in inputs],
            model_name="policy",
            opset=OPSET,
            input_names=[port.name for port in inputs],
            output_names=[port.name for port in outputs],
        )
    model.ir_version = IR_VERSION
    return model


def trace(program: Program) -> jex.ClosedJaxpr:
    """What the program does with one example."""
    one = [jax.ShapeDtypeStruct(port.shape, np.dtype(port.dtype)) for port in program.inputs]
    return jax.make_jaxpr(lambda *inputs: program.step(program.packed, *inputs))(*one)


def with_own_outputs(function: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The same, where each output is a value of its own, and no input either: jax2onnx gives one value one name."""

    def own(*inputs: Any) -> list[Any]:
        outputs = function(*inputs)
        taken = [*inputs, *outputs]
        return [
            jax.lax.optimization_barrier(x) if any(x is other for other in taken[: len(inputs) + i]) else x for i, x in enumerate(outputs)
        ]

    return own


class Batch:
    """Shape and dtype of many examples, the way jax2onnx asks for them."""

    def __init__(self, port: Port):
        self.shape, self.dtype = ("batch", *port.shape), np.dtype(port.dtype)


def cannot_export(program: Program, why: str) -> ExportError:
    """The error that says why, and which operations are to blame: those that cannot be converted by themselves either, or else all."""
    traced = trace(program)
    names = blamed(traced, as_bytes)
    everything = ", ".join(sorted(operations(traced.jaxpr)))
    fault = f"By themselves these fail: {', '.join(names)}. Write the model without them" if names else f"Its operations are {everything}"
    return ExportError(f"deploy.export: this policy cannot be exported: {why.rstrip('.')}. {fault}.")


def as_bytes(function: Callable[..., list[Any]], inputs: Sequence[Port], outputs: Sequence[Port]) -> bytes:
    return convert(function, inputs, outputs).SerializeToString()


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


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
