"""A bundle on onnxruntime: the fastest way to act on a CPU."""

import functools
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
    data, every = read_file(folder, config, ONNX), [port["name"] for port in config["outputs"]]

    @functools.cache
    def session(names: tuple[str, ...]) -> Any:
        program = data if list(names) == every else only(data, names)
        return onnxruntime.InferenceSession(program, options, providers=["CPUExecutionProvider"])

    try:
        session(tuple(every))
    except Exception as error:
        raise BundleError(f"{folder / ONNX} is no program that onnxruntime can run: {error}") from error

    def engine(inputs: Arrays, names: list[str]) -> Arrays:
        return dict(zip(names, session(tuple(names)).run(names, inputs), strict=True))

    return engine


def only(data: bytes, names: tuple[str, ...]) -> bytes:
    """The part of a program that these outputs need: onnxruntime would compute all. Where onnx is not installed, the whole."""
    try:
        import onnx
        from onnx.utils import Extractor
    except ImportError:
        return data
    model = onnx.load_model_from_string(data)
    return Extractor(model).extract_model([port.name for port in model.graph.input], list(names)).SerializeToString()
