"""Write a bundle: a policy as data, in a folder that needs neither the code that trained it nor us."""

import json
import os
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
from gymnasium import spaces
from safetensors.numpy import save as weights_as_bytes

from rl4jax.core.atomic import write_atomic
from rl4jax.core.errors import require
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.leaf_names import leaves_by_name
from rl4jax.core.spaces import mask_heads
from rl4jax.core.vec_env import VecEnv
from rl4jax.nn.model import Model, Normalized

from .bundle import CARD, CONFIG, FORMAT, ONNX, REPLAY, STABLEHLO, VERSION, WEIGHTS, Config, digest
from .card import write_card
from .codec import SpaceSpec
from .on_jax import to_stablehlo
from .onnx_file import ExportError, to_onnx
from .policy import DRAW, Policy, load
from .program import Port, Program, make_program
from .space_spec import space_spec

PACKAGES = ("rl4jax", "jax", "jax2onnx", "onnx", "onnxruntime", "numpy")
CLOSE = 1e-5  # how far numbers of ONNX may be from those of JAX
NUM_CHECKED = 256


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
    card: `algorithm`, `env`, `evaluation` (`mean`, `std`, `episodes`). `replay` is a GIF. What ONNX answers is compared with JAX first.
    """
    require(isinstance(env, VecEnv | GymVecEnv), "deploy.export: env", type(env).__name__, "an rl.VecEnv or rl.GymVecEnv")
    folder = Path(folder)
    program = make_program(model, env.single_observation_space, env.single_action_space, masked=masked, sample=sample)
    onnx_model = to_onnx(program)
    files = {
        ONNX: onnx_model.SerializeToString(),
        STABLEHLO: to_stablehlo(program),
        WEIGHTS: weights_as_bytes(program.weights),
        **({} if replay is None else {REPLAY: replay}),
    }
    config = describe(program, env, masked, about or {})
    files[CARD] = write_card(config, replay is not None).encode()
    config["files"] = {name: digest(data) for name, data in files.items()}
    for name, data in files.items():
        write_atomic(folder / name, data)
    write_atomic(folder / CONFIG, (json.dumps(config, indent=1) + "\n").encode())  # the last one: without it there is no bundle
    check(program, load(folder, "onnxruntime"))
    return folder


def describe(program: Program, env: VecEnv | GymVecEnv, masked: bool, about: dict[str, Any]) -> Config:
    """`config.json`, but for the files."""
    own = env.envs if isinstance(env, GymVecEnv) else env
    model = program.packed.model
    return {
        "format": FORMAT,
        "version": VERSION,
        **about,
        "inputs": [port._asdict() for port in program.inputs],
        "outputs": [port._asdict() for port in program.outputs],
        "observation_space": _own_observations(env),
        "action_space": space_spec(own.single_action_space, env.single_action_space, "action"),
        "mask": _mask(env, program) if masked else None,
        "carry": [_carry(port._asdict(), program.carry[port.name]) for port in program.inputs if port.name in program.carry],
        "noise": [port._asdict() | {"kind": program.noise[port.name]} for port in program.inputs if port.name in program.noise],
        "normalisation": _statistics(model) if isinstance(model, Normalized) else None,
        "versions": {name: metadata.version(name) for name in PACKAGES},
    }


def _own_observations(env: VecEnv | GymVecEnv) -> SpaceSpec:
    """Without the mask that some environments have among them."""
    shown = env.single_observation_space
    if not isinstance(env, GymVecEnv):
        return space_spec(shown, shown, "obs")
    own: Any = env.envs.single_observation_space
    if not env.masks.in_obs:
        return space_spec(own, shown, "obs")
    rest = {name: part for name, part in own.items() if name != "action_mask"}
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
        "clip": 10.0,
    }


def check(program: Program, policy: Policy) -> None:
    """Raise unless ONNX answers what JAX does, to random inputs."""
    rng = np.random.default_rng(0)
    inputs = {port.name: random_input(rng, port, program.noise.get(port.name)) for port in program.inputs}
    wanted = jax.jit(jax.vmap(lambda *one: program.step(program.packed, *one)))(*inputs.values())
    answers = policy.engine(inputs, [port.name for port in program.outputs])
    for port, want in zip(program.outputs, wanted, strict=True):
        got, want = np.asarray(answers[port.name]), np.asarray(want)
        if got.shape != want.shape or got.dtype != want.dtype:
            raise ExportError(f"{port.name} is {got.dtype} {got.shape} in ONNX, but {want.dtype} {want.shape} in JAX.")
        wrong = ~np.isclose(got, want, rtol=CLOSE, atol=CLOSE * max(1.0, np.abs(want).max()) if want.dtype.kind == "f" else 0.0)
        # A choice between two that are as good as equal may fall either way.
        if wrong.mean() > (0.01 if got.dtype.kind in "iu" else 0.0):
            i = np.argwhere(wrong)[0]
            raise ExportError(f"{port.name} differs: ONNX says {got[tuple(i)]}, JAX {want[tuple(i)]}. Please report this policy.")


def random_input(rng: np.random.Generator, port: Port, kind: str | None) -> np.ndarray:
    """Many examples of an input."""
    shape, dtype = (NUM_CHECKED, *port.shape), np.dtype(port.dtype)
    if kind is not None:
        return DRAW[kind](rng, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.8
    return rng.integers(0, 2, shape).astype(dtype) if dtype.kind in "iu" else rng.normal(size=shape).astype(dtype)
