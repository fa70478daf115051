"""The folder of a new run: where it is, and what is written into it before the first turn."""

import contextlib
import datetime
import re
import sys
from importlib import metadata
from pathlib import Path

from rl4jax.core.errors import CheckpointError

from .output import hint
from .run import AbstractRun
from .settings import Settings, to_toml

PACKAGES = ("rl4jax", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium")


def default_folder(run: AbstractRun) -> Path:
    name = re.sub(r"[^\w.-]+", "-", run.options.env).strip("-")
    return Path("runs") / f"{run.algorithm.name}-{name}-{datetime.datetime.now():%Y%m%d-%H%M%S}"


def in_free_folder(run: AbstractRun) -> AbstractRun:
    """The run in its folder, which is made, or in that with a number: several may start in one second."""
    for i in range(1, 1000):
        free = run if i == 1 else run.moved_to(run.path.with_name(f"{run.path.name}-{i}"))
        with contextlib.suppress(FileExistsError):
            free.path.mkdir(parents=True)
            return free
    raise CheckpointError(f"{run.path} and a thousand others exist. Choose a folder with --out.")


def begin_folder(run: AbstractRun, settings: Settings) -> None:
    """Write down what the run is, into a folder that holds none yet."""
    if any((run.path / name).exists() for name in ("config.json", "log.jsonl", "checkpoints", "replay")):
        raise CheckpointError(f"{run.path} already holds a run. Go on with it: {hint('resume', run.path)}. Or choose another --out.")
    run.directory.write_json("versions.json", versions())
    store_settings(run, settings)


def store_settings(run: AbstractRun, settings: Settings) -> None:
    """The whole configuration, twice: config.json, which `resume` reads, and config.toml, for `--config`."""
    settings = settings | run.choices
    text = f"# rl4jax {run.algorithm.command} --config {run.path}/config.toml\n{to_toml(settings)}"
    (run.path / "config.toml").write_text(text, encoding="utf-8")
    run.directory.write_json("config.json", {"algorithm": run.algorithm.name, **settings})


def versions() -> dict[str, str]:
    return {"python": sys.version.split()[0], **{name: metadata.version(name) for name in PACKAGES}}
