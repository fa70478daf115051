"""The folder of a run: its newest checkpoints, the best one, and small JSON files such as the config."""

import contextlib
import json
import math
import operator
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, SupportsFloat, SupportsIndex

from jaxtyping import PyTree

from .atomic import sweep, to_json, write_atomic
from .checkpoint import Contents, fit, read, save, user_metadata
from .errors import CheckpointError, is_count, require

try:
    import fcntl
except ImportError:  # Windows, where `lock` does nothing
    fcntl = None

_CHECKPOINT = re.compile(r"step_(\d{12,})\.safetensors")


class RunDir:
    """`path/checkpoints/step_000000012345.safetensors`, the newest `keep` of them, `path/checkpoints/best.safetensors` and `path/*.json`.

    Nothing is created before the first write. A killed process leaves whole files only.
    """

    def __init__(self, path: str | os.PathLike[str], keep: int = 3):
        require(is_count(keep), "RunDir.keep", keep, "a positive integer")
        self.path = Path(path)
        self.keep = int(keep)
        self._ignored: set[int] = set()  # later steps that were found damaged, or warned about

    @property
    def best_path(self) -> Path:
        return self.path / "checkpoints" / "best.safetensors"

    def step_path(self, step: SupportsIndex) -> Path:
        """Where the checkpoint of a step is or would be."""
        return self.path / "checkpoints" / f"step_{_index(step):012d}.safetensors"

    def steps(self) -> list[int]:
        """The steps with a checkpoint, in order."""
        folder = self.path / "checkpoints"
        names = os.listdir(folder) if folder.is_dir() else []
        return sorted(int(match[1]) for match in map(_CHECKPOINT.fullmatch, names) if match)

    def save(self, step: SupportsIndex, tree: PyTree, *, metadata: Mapping[str, Any] | None = None) -> Path:
        """Write the checkpoint of a step and remove those before the newest `keep`. The step is added to the metadata."""
        path, step = self.step_path(step), _index(step)
        save(path, tree, metadata={**(metadata or {}), "step": step})
        sweep(path.parent)
        steps = self.steps()
        for old in [other for other in steps if other <= step][: -self.keep]:
            with contextlib.suppress(OSError):  # a file too many is no reason to stop a run
                self.step_path(old).unlink()
        if later := {other for other in steps if other > step} - self._ignored:
            self._ignored |= later
            warnings.warn(
                f"RunDir.save: {self.path} also has step {max(later)}, after step {step} just saved, and `latest` will prefer it. "
                "If it is of another run, remove it or use another folder.",
                RuntimeWarning,
                stacklevel=2,
            )
        return path

    def latest(self, like: PyTree) -> tuple[int, PyTree] | None:
        """The newest checkpoint that is not damaged, with its step; None if there are none.

        Going back behind a damaged one is warned about. One that is whole but does not fit `like` raises.
        """
        damaged = {}
        for step in reversed(self.steps()):
            try:
                contents = read(self.step_path(step))
            except CheckpointError as error:
                damaged[step] = str(error)
                continue
            self._ignored |= set(damaged)
            for reason in damaged.values():
                warnings.warn(f"RunDir.latest goes back to step {step}: {reason}", RuntimeWarning, stacklevel=2)
            return step, fit(contents, like)
        if damaged:
            raise CheckpointError(f"No checkpoint of {self.path} can be read:\n  " + "\n  ".join(damaged.values()))
        return None

    def save_best(self, step: SupportsIndex, tree: PyTree, score: SupportsFloat, *, metadata: Mapping[str, Any] | None = None) -> bool:
        """Keep the tree as the best if its score is greater than that of the best so far; whether it is. NaN never is."""
        step, score = _index(step), float(score)
        if math.isnan(score):
            return False
        if self.best_path.exists():
            try:
                contents = read(self.best_path)
            except CheckpointError as error:
                warnings.warn(f"RunDir.save_best starts anew: {error}", RuntimeWarning, stacklevel=2)
            else:
                if score <= _entry(contents, "score"):
                    return False
        save(self.best_path, tree, metadata={**(metadata or {}), "step": step, "score": score})
        return True

    def best(self, like: PyTree) -> tuple[int, PyTree] | None:
        """The best checkpoint by evaluation, with its step; None if there is none."""
        if not self.best_path.exists():
            return None
        contents = read(self.best_path)
        return _entry(contents, "step"), fit(contents, like)

    def write_json(self, name: str, obj: Any) -> None:
        """Write `path/name`, such as config.json, whole or not at all."""
        path = self._json_path(name)
        write_atomic(path, (to_json(f"RunDir.write_json: {name}", obj, indent=2) + "\n").encode())
        sweep(path.parent)

    def read_json(self, name: str) -> Any:
        path = self._json_path(name)
        try:
            return json.loads(path.read_bytes())
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error}.") from error
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{path} is damaged, or not JSON: {error}.") from error

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Refuse a second process, or a second `with`, on this folder. The kernel ends the lock with the process, also by kill -9."""
        if fcntl is None:
            yield
            return
        path = self.path / "lock"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = path.open("a+")  # never removed: another process may be about to lock it
        except OSError as error:
            raise CheckpointError(f"{path} cannot be written: {error}.") from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                owner = file.read().strip() or "unknown"
                raise CheckpointError(f"{self.path} is in use by process {owner}. Wait for it, or use another folder.") from error
            except OSError as error:
                raise CheckpointError(f"{path} cannot be locked: {error}. Leave out `lock` on this file system.") from error
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def _json_path(self, name: str) -> Path:
        require(name.endswith(".json") and Path(name).name == name, "RunDir: name", name, "a file name ending in .json, without folders")
        return self.path / name


def _index(step: SupportsIndex) -> int:
    number = operator.index(step)
    require(number >= 0, "RunDir: step", number, "zero or positive")
    return number


def _entry(contents: Contents, name: str) -> Any:
    metadata = user_metadata(contents)
    if name not in metadata:
        raise CheckpointError(f"{contents.path} has no {name!r} in its metadata, so RunDir did not write it. Move it away.")
    return metadata[name]
