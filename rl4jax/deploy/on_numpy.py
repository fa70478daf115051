"""A bundle on NumPy alone, by the reference implementation of ONNX: slow, and wherever Python is."""

from pathlib import Path
from typing import Any

import numpy as np

from rl4jax.core.errors import missing_package

from .bundle import ONNX, Config, read_file
from .codec import Arrays
from .errors import BundleError, printable
from .onnx_parts import messages
from .policy import Engine


def make_engine(folder: Path, config: Config) -> Engine:
    try:
        import onnx
        from onnx.reference import ReferenceEvaluator

        from .numpy_products import Gemm, MatMul
    except ImportError as error:
        raise missing_package("deploy.load(runtime='numpy')", "onnx") from error
    data = read_file(folder, config, ONNX)
    try:
        model = onnx.load_model_from_string(data)
        if any(isinstance(part, onnx.TensorProto) and part.external_data for part in messages(model)):
            raise ValueError("it keeps weights in other files, which no exported policy does.")
        program = ReferenceEvaluator(model, new_ops=[MatMul, Gemm])
    except Exception as error:
        raise BundleError(f"{folder / ONNX} is no program that onnx can run: {printable(error)}") from error

    def engine(inputs: Arrays, names: list[str]) -> Arrays:
        with np.errstate(all="ignore"):  # as the others: what is too large is infinite
            outputs: Any = program.run(names, inputs)
        return dict(zip(names, outputs, strict=True))

    return engine
