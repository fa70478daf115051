"""A bundle on onnxruntime: the fastest way to act on a CPU."""

import functools
from pathlib import Path
from typing import Any

from rl4jax.core.errors import missing_package

from .bundle import ONNX, Config, read_file
from .codec import Arrays
from .errors import BundleError, printable
from .policy import Engine


def make_engine(folder: Path, config: Config) -> Engine:
    """One thread: more of them cost a small network more than they give."""
    try:
        import onnxruntime
    except ImportError as error:
        raise missing_package("deploy.load(runtime='onnxruntime')", "onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only
    # A program may keep its weights in other files, by default those of the working directory. Below a file there are none.
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str((folder / ONNX).absolute()))
    data, every = read_file(folder, config, ONNX), [port["name"] for port in config["outputs"]]

    def started(program: bytes) -> Any:
        return onnxruntime.InferenceSession(program, options, providers=["CPUExecutionProvider"])

    try:
        whole = started(data)
    except Exception as error:
        raise BundleError(f"{folder / ONNX} is no program that onnxruntime can run: {printable(error)}") from error

    @functools.cache
    def session(names: tuple[str, ...]) -> Any:
        program = data if list(names) == every else only(data, names)
        return whole if program is data else started(program)

    def engine(inputs: Arrays, names: list[str]) -> Arrays:
        return dict(zip(names, session(tuple(names)).run(names, inputs), strict=True))

    return engine


def only(data: bytes, names: tuple[str, ...]) -> bytes:
    """The part of a program that these outputs need: onnxruntime would compute all.

    The whole where onnx is not installed, and of a program with loops or branches: what these take from outside is not listed.
    """
    try:
        import onnx
        from onnx.utils import Extractor
    except ImportError:
        return data
    model = onnx.load_model_from_string(data)
    if any(attribute.HasField("g") or attribute.graphs for node in model.graph.node for attribute in node.attribute):
        return data
    return Extractor(model).extract_model([port.name for port in model.graph.input], list(names)).SerializeToString()
