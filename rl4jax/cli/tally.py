"""What a run counts: episodes since the last line of the log, skipped updates, seconds. It is stored with each checkpoint."""

import collections
import dataclasses
import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np

from rl4jax.collect.evaluation import Evaluation

from .turn import Turn


@dataclasses.dataclass
class Tally:
    """Counts of a run over all its processes. One process adds a turn at a time."""

    episodes: int = 0  # since the last line of the log, like the next three
    return_sum: float = 0.0
    length_sum: float = 0.0
    skipped: int = 0
    total_skipped: int = 0
    train_seconds: float = 0.0  # of earlier processes, without compilation and evaluation
    compile_seconds: float = 0.0  # likewise
    evaluation: dict[str, int | float] | None = None  # the last one, with its step

    def __post_init__(self):
        self.recent: collections.deque[float] = collections.deque(maxlen=100)  # returns
        self._first: float | None = None  # seconds of the first turn of this process
        self._others: collections.deque[float] = collections.deque(maxlen=101)
        self._seconds = 0.0

    def add_turn(self, turn: Turn) -> None:
        """Count what happened in a turn."""
        self.recent.extend(turn.returns.tolist())
        self.episodes += len(turn.returns)
        self.return_sum += float(turn.returns.sum(dtype=np.float64))
        self.length_sum += float(turn.lengths.sum(dtype=np.float64))
        self.skipped += turn.skipped
        self.total_skipped += turn.skipped

    def add_seconds(self, seconds: float) -> None:
        """Count the time of a turn. The first one compiles."""
        self._seconds += seconds
        if self._first is None:
            self._first = seconds
        else:
            self._others.append(seconds)

    def add_housekeeping(self, seconds: float) -> None:
        """Count the time that logs and checkpoints took."""
        self._seconds += seconds

    @property
    def seconds(self) -> tuple[float, float]:
        """Of training and of compiling, in all processes so far. Compiling is what the first turn took more than a typical one."""
        typical = statistics.median(self._others) if self._others else 0.0
        compiling = max((self._first or 0.0) - typical, 0.0)
        return self.train_seconds + self._seconds - compiling, self.compile_seconds + compiling

    def take_line(self) -> dict[str, int | float]:
        """What the log should say of the turns since its last line. No episode, no mean."""
        line: dict[str, int | float] = {"train/skipped": self.skipped}
        if self.episodes:
            line |= {"rollout/avg_return": self.return_sum / self.episodes, "rollout/avg_length": self.length_sum / self.episodes}
        self.episodes, self.return_sum, self.length_sum, self.skipped = 0, 0.0, 0.0, 0
        return line

    def set_evaluation(self, step: int, result: Evaluation) -> dict[str, int | float]:
        """Keep an evaluation; returns its lines for the log."""
        mean, std = float(result.mean), float(result.std)
        self.evaluation = {"step": step, "mean": mean, "std": std, "episodes": len(result.returns)}
        return {"eval/return_mean": mean, "eval/return_std": std, "eval/length_mean": float(np.mean(result.lengths))}

    def metadata(self) -> dict[str, Any]:
        train_seconds, compile_seconds = self.seconds
        return {"tally": dataclasses.asdict(self) | {"train_seconds": train_seconds, "compile_seconds": compile_seconds}}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> "Tally":
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in dict(metadata.get("tally") or {}).items() if name in names})
