"""A bundle on onnxruntime: the fastest way to act on a CPU."""

from pathlib import Path
from typing import Any

from rl4jax.core.errors import missing_extra

from .bundle import ONNX, BundleError, Config, read_file
from .codec import Arrays
from .policy import Engine


def make_engine(folder: Path, config: Config) -> Engine:
    """One thread: more of them cost a small network more than they give."""
    try:
        import onnxruntime
    except ImportError as error:
        raise missing_extra("deploy.load(runtime='onnxruntime')", extra="onnx") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only
    data = read_file(folder, config, ONNX)
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise BundleError(f"{folder / ONNX} is no program that onnxruntime can run: {error}") from error
    run: Any = session.run

    def engine(inputs: Arrays, names: list[str]) -> Arrays:
        return dict(zip(names, run(names, inputs), strict=True))

    return engine
