"""A run: what `config.json` in its folder says, as environment, settings and states. Of two kinds: `training.py` and `imitation.py`."""

import abc
import contextlib
import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax

from rl4jax.collect.playing import AnyVecEnv
from rl4jax.core.checkpoint import read_metadata
from rl4jax.core.errors import CheckpointError, require
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.run_dir import RunDir

from .algorithms import Algorithm
from .options import Options
from .output import hint
from .progress import Progress
from .settings import Settings
from .turn import Turn


class Rhythm(NamedTuple):
    """Turns between two lines of the log, two evaluations and two checkpoints; 0: only at the end."""

    log: int
    evaluate: int
    checkpoint: int


@dataclasses.dataclass(frozen=True)
class AbstractRun(abc.ABC):
    """The folder of a run and what it runs, turn by turn. Nothing here changes as it goes on: that is the algorithm's `State`."""

    directory: RunDir
    algorithm: Algorithm
    options: Options
    network: Any
    cfg: Any
    env: AnyVecEnv

    @property
    def path(self) -> Path:
        return self.directory.path

    def moved_to(self, path: Path) -> "AbstractRun":
        """The same run in another folder."""
        return dataclasses.replace(self, directory=RunDir(path, keep=self.directory.keep))

    @property
    def title(self) -> str:
        return f"{self.algorithm.title} on {self.options.env}"

    def place(self, step: int) -> str:
        """A step in words: step 320, epoch 7."""
        return f"{self.algorithm.unit.removesuffix('s')} {step}"

    @property
    def on_host(self) -> bool:
        return isinstance(self.env, GymVecEnv)

    @property
    @abc.abstractmethod
    def about(self) -> str:
        """How much it will do."""

    @property
    @abc.abstractmethod
    def steps_per_turn(self) -> int:
        """In what its algorithm counts: environment steps or epochs."""

    @property
    @abc.abstractmethod
    def num_turns(self) -> int: ...

    @property
    def last_step(self) -> int:
        """Where the run ends."""
        return self.num_turns * self.steps_per_turn

    @property
    @abc.abstractmethod
    def rhythm(self) -> Rhythm: ...

    @property
    @abc.abstractmethod
    def choices(self) -> Settings:
        """Settings that were left to the run, as it chose them: to be stored, so that a longer run keeps them."""

    def key(self, purpose: Literal["model", "init", "eval", "begin", "picture"], step: int = 0) -> jax.Array:
        """The randomness of one thing at one step: a matter of the seed alone."""
        purposes = ("model", "init", "eval", "begin", "picture")
        return jax.random.fold_in(jax.random.split(jax.random.key(self.options.seed), len(purposes))[purposes.index(purpose)], step)

    def make_model(self) -> Any:
        return self.network.build(self.env, self.key("model"))

    @abc.abstractmethod
    def fresh(self) -> Any:
        """The state before the first turn."""

    @abc.abstractmethod
    def try_out(self) -> None:
        """Raise whatever would keep the run from beginning: before anything is written."""

    @functools.cached_property
    @abc.abstractmethod
    def like(self) -> Any:
        """What a checkpoint must look like."""

    @abc.abstractmethod
    def revive(self, step: int, state: Any) -> Any:
        """A state that was read from a checkpoint, ready to go on."""

    @abc.abstractmethod
    def storing(self, state: Any) -> contextlib.AbstractContextManager[None]:
        """For a `with` around the saving of a checkpoint."""

    @abc.abstractmethod
    def learn(self, state: Any, step: int, progress: Progress, *, first: bool) -> tuple[Any, Turn]:
        """One turn. The first one of a process compiles, and is shown as what it is."""

    @abc.abstractmethod
    def status(self, turn: Turn, recent: Sequence[float]) -> str:
        """How well it goes, in a few words, given the returns of the last episodes."""

    def load(self, which: str = "latest") -> tuple[int, Any] | None:
        """A checkpoint and its step, if there is one."""
        require(which in ("latest", "best"), "which", which, "'latest' or 'best'")
        found = self.directory.latest(self.like) if which == "latest" else self.directory.best(self.like)
        return None if found is None else (found[0], self.revive(*found))

    def need(self, which: str = "latest") -> tuple[int, Any]:
        """`load`, where there must be one."""
        found = self.load(which)
        if found is None:
            advice = "It is written by evaluations." if which == "best" else f"Go on with: {hint('resume', self.path)}"
            raise CheckpointError(f"{self.path} has no {which} checkpoint yet. {advice}")
        return found

    def metadata(self, step: int) -> dict:
        """What was stored with the checkpoint of a step."""
        return read_metadata(self.directory.step_path(step))
