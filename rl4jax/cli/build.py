"""A run from its settings, or from its folder: the one place that rebuilds it."""

import os
from pathlib import Path

from rl4jax.core.errors import CheckpointError
from rl4jax.core.run_dir import RunDir

from .algorithms import ALGORITHMS, Algorithm
from .imitation import build_imitation
from .run import AbstractRun
from .settings import Settings, checked, defaults
from .training import build_training

PLAY = "python -m rl4jax.deploy.run DIR"


def build_run(algorithm: Algorithm, settings: Settings, path: str | os.PathLike[str]) -> AbstractRun:
    """A run from its settings; the folder is not touched."""
    return (build_imitation if algorithm.imitates else build_training)(algorithm, settings, path)


def load_run(path: str | os.PathLike[str]) -> AbstractRun:
    """The run that a command left in a folder."""
    return build_run(*stored_settings(path), path)


def stored_settings(path: str | os.PathLike[str]) -> tuple[Algorithm, Settings]:
    """What `config.json` in the folder of a run says."""
    if not (Path(path) / "config.json").is_file():
        if Path(path).is_file():
            raise CheckpointError(f"{path} is a file, not the folder of a run. Weights alone are read by rl.load(path, like=model).")
        what = "has no config.json, so it is not the folder of a run" if Path(path).is_dir() else "does not exist"
        raise CheckpointError(f"{path} {what}. Give the folder that `rl4jax train` wrote, such as runs/ppo-CartPole-20250101-120000.")
    stored = RunDir(path).read_json("config.json")
    name = stored.pop("algorithm", None) if isinstance(stored, dict) else None
    if isinstance(stored, dict) and "format" in stored:
        raise CheckpointError(f"{path} is of an exported policy, not of a run. Give the run that it was exported from, or play it: {PLAY}.")
    if name not in ALGORITHMS:
        known = f"this rl4jax has {', '.join(ALGORITHMS)}"
        raise CheckpointError(f"{path}/config.json is not of a run that can be read: its algorithm is {name!r}, and {known}.")
    algorithm = ALGORITHMS[name]
    return algorithm, defaults(algorithm) | checked(algorithm, stored, f"{path}/config.json")
