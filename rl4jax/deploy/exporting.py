"""Write a bundle: a policy as data, in a folder that needs neither the code that trained it nor us."""

import contextlib
import json
import os
import tempfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from safetensors.numpy import save as weights_as_bytes

from rl4jax.core.atomic import sync_folder, write_atomic
from rl4jax.core.errors import CheckpointError, ConfigError, missing_extra, require
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.leaf_names import leaves_by_name
from rl4jax.core.running_stats import CLIP
from rl4jax.core.spaces import mask_heads
from rl4jax.core.vec_env import VecEnv
from rl4jax.nn.model import Model, Normalized
from rl4jax.nn.model_check import check_callable

from .bundle import CARD, CONFIG, FORMAT, ONNX, REPLAY, STABLEHLO, VERSION, WEIGHTS, Config, digest
from .card import FILES, write_card
from .codec import MASK, SpaceSpec
from .comparison import check
from .config_check import is_name
from .errors import BundleError, ExportError
from .onnx_file import cannot_export, first_line, to_onnx
from .own_folder import check_folder, holds_bundle
from .policy import Policy, load
from .program import Program, make_program
from .space_spec import space_spec
from .stablehlo_file import to_stablehlo

EVALUATION = ("mean", "std", "episodes")  # what the card needs of a result
CONVERTERS = ("jax2onnx", "onnx", "onnxruntime", "flatbuffers")
PACKAGES = ("rl4jax", "jax", "jax2onnx", "onnx", "onnxruntime", "numpy")


def export(
    model: Model,
    env: VecEnv | GymVecEnv,
    folder: str | os.PathLike[str],
    *,
    masked: bool = False,
    sample: bool = False,
    about: dict[str, Any] | None = None,
    replay: bytes | None = None,
) -> Path:
    """Write the policy of a model for the spaces of `env`, and return its folder.

    It takes the most likely action, or with `sample` draws one. With `masked` it takes a mask. `about` goes into `config.json` and the
    card: `algorithm`, `env`, `evaluation` (`mean`, `std`, `episodes`), `step`, `seed`, and as `value` what that output is. `replay` is a
    GIF. What ONNX answers is compared with JAX first: a bundle that is there already stays if this fails. A folder with other things of
    these names in it is refused.
    """
    check_packages()
    require(isinstance(env, VecEnv | GymVecEnv), "deploy.export: env", type(env).__name__, "an rl.VecEnv or rl.GymVecEnv")
    require(replay is None or isinstance(replay, bytes), "deploy.export: replay", type(replay).__name__, "the bytes of a GIF")
    check_callable(model)
    check_about({} if about is None else about)
    folder = Path(folder)
    check_target(folder)
    program = make_program(model, env.single_observation_space, env.single_action_space, masked=masked, sample=sample)
    files = {
        ONNX: to_onnx(program).SerializeToString(),
        STABLEHLO: to_stablehlo(program),
        WEIGHTS: weights_as_bytes(program.weights),
        **({} if replay is None else {REPLAY: replay}),
    }
    config = describe(program, env, masked, about or {})
    files[CARD] = write_card(config, folder.resolve().name, replay is not None).encode(errors="replace")
    config["files"] = {name: digest(data) for name, data in files.items()}
    files[CONFIG] = as_json(config)  # the last one: it makes the others a bundle
    with tempfile.TemporaryDirectory() as trial:
        write(files, Path(trial))
        check(program, load_trial(program, trial))
    replace(files, folder)
    return folder


def check_target(folder: Path) -> None:
    """Raise if a bundle there would destroy something else, such as a run."""
    check_folder(folder, FILES, holds_bundle, "a bundle")


def check_packages() -> None:
    if any(find_spec(package) is None for package in CONVERTERS):
        raise missing_extra("deploy.export", extra="onnx")


def check_about(about: Any) -> None:
    """Raise unless it is JSON that the card can be written of."""
    require(isinstance(about, dict), "deploy.export: about", about, "a dict")
    try:
        json.dumps(about, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"deploy.export: about = {about!r} cannot be written as JSON: {error}. Give strings, lists, dicts and finite numbers, "
            f"as float(x) of an array."
        ) from error
    for name in ("algorithm", "env", "value"):
        require(is_name(about.get(name)), f"deploy.export: about[{name!r}]", about.get(name), "a text without control characters")
    result = about.get("evaluation")
    complete = isinstance(result, dict) and all(isinstance(result.get(name), int | float) for name in EVALUATION)
    require(complete or result is None, "deploy.export: about['evaluation']", result, f"a dict with the numbers {', '.join(EVALUATION)}")


def as_json(config: Config) -> bytes:
    try:
        return (json.dumps(config, indent=1, allow_nan=False) + "\n").encode()
    except ValueError as error:
        raise ExportError("deploy.export: the memory at the start, or a running statistic of the model, is not finite.") from error


def write(files: dict[str, bytes], folder: Path) -> None:
    for name, data in files.items():
        write_atomic(folder / name, data)


def replace(files: dict[str, bytes], folder: Path) -> None:
    """Put new files in the place of those of an older bundle, once all of them are on the disk."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".new-", ignore_cleanup_errors=True) as new:
            write(files, Path(new))
            for name in files:
                os.replace(Path(new) / name, folder / name)
        for name in set(FILES) - set(files):
            (folder / name).unlink(missing_ok=True)
        sync_folder(folder)
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be written: {error}.") from error


def load_trial(program: Program, folder: str) -> Policy:
    try:
        return load(folder, "onnxruntime")
    except BundleError as error:
        if error.__cause__ is None:  # no fault of the program
            raise
        raise cannot_export(program, f"onnxruntime said {first_line(error.__cause__)}") from error


def describe(program: Program, env: VecEnv | GymVecEnv, masked: bool, about: dict[str, Any]) -> Config:
    """`config.json`, but for the files."""
    own = env.envs if isinstance(env, GymVecEnv) else env
    model = program.packed.model
    return {
        **about,  # first: it replaces nothing of ours
        "format": FORMAT,
        "version": VERSION,
        "inputs": [port._asdict() for port in program.inputs],
        "outputs": [port._asdict() for port in program.outputs],
        "observation_space": _own_observations(env),
        "action_space": space_spec(own.single_action_space, env.single_action_space, "action"),
        "mask": _mask(env, program) if masked else None,
        "carry": [_carry(port._asdict(), program.carry[port.name]) for port in program.inputs if port.name in program.carry],
        "noise": [port._asdict() | {"kind": program.noise[port.name]} for port in program.inputs if port.name in program.noise],
        "normalisation": _statistics(model) if isinstance(model, Normalized) else None,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Of the packages that are installed under these names: onnxruntime has others too."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _own_observations(env: VecEnv | GymVecEnv) -> SpaceSpec:
    """Without the mask that some environments have among them."""
    shown = env.single_observation_space
    if not isinstance(env, GymVecEnv):
        return space_spec(shown, shown, "obs")
    own: Any = env.envs.single_observation_space
    if not env.masks.in_obs:
        return space_spec(own, shown, "obs")
    rest = {name: part for name, part in own.items() if name != MASK}
    if len(rest) > 1:
        return space_spec(spaces.Dict(rest), shown, "obs")
    return {"type": "Dict", "spaces": {name: space_spec(part, shown, "obs") for name, part in rest.items()}}


def _mask(env: VecEnv | GymVecEnv, program: Program) -> dict[str, Any]:
    """How many there are to allow, where each choice among them begins and ends, and whether the environment shows them."""
    size = next(port.shape[0] for port in program.inputs if port.name == "mask")
    heads = [[head.start, head.stop] for head in mask_heads(env.single_action_space)]
    return {"size": size, "heads": heads, "in_obs": isinstance(env, GymVecEnv) and env.masks.in_obs}


def _carry(port: dict[str, Any], initial: np.ndarray) -> dict[str, Any]:
    """One number if all are the same."""
    return port | {"initial": initial.flat[0].item() if initial.size and (initial == initial.flat[0]).all() else initial.tolist()}


def _statistics(model: Normalized) -> dict[str, Any]:
    """For the reader: the program has them inside."""
    mean, var = (leaves_by_name({"obs": tree})[0] for tree in (model.stats.mean, model.stats.var))
    return {
        "mean": {k: np.asarray(x).tolist() for k, x in mean.items()},
        "var": {k: np.asarray(x).tolist() for k, x in var.items()},
        "clip": CLIP,
    }
