"""A bundle: a folder with a policy in it that runs without us. What may be in it, and how it is read. NumPy only."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from .config_check import check_config
from .errors import BundleError

FORMAT, VERSION = "rl4jax-policy", 1
ONNX, STABLEHLO, WEIGHTS, CONFIG, CARD, REPLAY = (
    "policy.onnx", "policy.stablehlo", "model.safetensors", "config.json", "README.md", "replay.gif",
)  # fmt: skip
OPSET, IR_VERSION = 17, 8  # of 2022: game engines and phones lag behind, and no policy of ours needs more
MOST_BYTES = 2 << 30  # of a file: protobuf has no more, nor has a policy
Config = dict[str, Any]


def read_config(folder: Path) -> Config:
    """What a bundle says of itself."""
    path = folder / CONFIG
    if not os.path.isfile(path):  # of a name that is none too, where Path raises
        what = "has no config.json" if os.path.isdir(folder) else "is not a folder"
        raise BundleError(f"{folder} {what}, so it is no bundle. Give a folder that `rl4jax export RUN --out DIR` wrote.")
    try:
        config = json.loads(read_bytes(path).decode("utf-8"), parse_constant=_no_number)
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise BundleError(f"{path} cannot be read: {error}. Export the policy again.") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        fix = "Give a folder that `rl4jax export RUN --out DIR` wrote: of a run, RUN/bundle."
        raise BundleError(f"{path} is not of a bundle: format must be {FORMAT!r}. {fix}")
    if config.get("version") != VERSION:
        raise BundleError(f"{path} has version {config.get('version')!r}; this rl4jax reads {VERSION}. Use the rl4jax that wrote it.")
    missing = {"files", "inputs", "outputs", "observation_space", "action_space", "carry", "noise", "mask"} - set(config)
    if missing:
        raise BundleError(f"{path} lacks {', '.join(sorted(missing))}. Export the policy again.")
    check_config(config)
    return config


def _no_number(name: str) -> None:
    raise ValueError(f"it has {name} in it, which is no JSON")


def read_file(folder: Path, config: Config, name: str) -> bytes:
    """A file of a bundle, if it still is what was written."""
    if name not in config["files"] or not (folder / name).is_file():
        raise BundleError(f"{folder / name} is missing. Copy the bundle again, whole.")
    try:
        data = read_bytes(folder / name)
    except (OSError, ValueError, MemoryError) as error:
        raise BundleError(f"{folder / name} cannot be read: {error}. Copy the bundle again, whole.") from error
    if digest(data) != config["files"][name]:
        raise BundleError(f"{folder / name} is not the file that was exported: it was changed or cut off. Copy the bundle again.")
    return data


def read_bytes(path: Path) -> bytes:
    """A file of a size that one of ours could have."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(f"it has {size:,} bytes; a file of a bundle has at most {MOST_BYTES:,}")
    return path.read_bytes()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
