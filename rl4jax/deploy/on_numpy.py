"""A bundle on NumPy alone, by the reference implementation of ONNX: slow, and wherever Python is."""

from pathlib import Path
from typing import Any

from rl4jax.core.errors import missing_extra

from .bundle import ONNX, BundleError, Config, read_file
from .codec import Arrays
from .policy import Engine


def make_engine(folder: Path, config: Config) -> Engine:
    try:
        import onnx
        from onnx.reference import ReferenceEvaluator
    except ImportError as error:
        raise missing_extra("deploy.load(runtime='numpy')", extra="onnx") from error
    data = read_file(folder, config, ONNX)
    try:
        program = ReferenceEvaluator(onnx.load_model_from_string(data))
    except Exception as error:
        raise BundleError(f"{folder / ONNX} is no program that onnx can run: {error}") from error

    def engine(inputs: Arrays, names: list[str]) -> Arrays:
        outputs: Any = program.run(names, inputs)
        return dict(zip(names, outputs, strict=True))

    return engine
