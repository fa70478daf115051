"""What one turn of a run has to say: the metrics of its updates as one line, and the episodes that ended in it."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rl4jax.collect.rollout import Rollout

NONE = np.zeros(0, np.float32)
SKIPPED = "train/skipped"


class Turn(NamedTuple):
    """One or several updates."""

    updates: Mapping[str, np.ndarray]  # metrics, [U] each
    returns: np.ndarray = NONE  # of the episodes that ended
    lengths: np.ndarray = NONE

    @property
    def skipped(self) -> int:
        """Gradient steps or updates from which nothing was learned."""
        return int(self.updates[SKIPPED].sum())

    @property
    def metrics(self) -> dict[str, float]:
        """Means over the updates. Before learning starts a loss is NaN, which belongs in no mean; without any number there is none.

        >>> Turn({"train/loss": np.array([np.nan, 1.0, 3.0]), "train/mean_q": np.full(3, np.nan), SKIPPED: np.ones(3)}).metrics
        {'train/loss': 2.0}
        """
        numbers = {name: x[~np.isnan(x)] for name, x in self.updates.items() if name != SKIPPED and not name.startswith("rollout/")}
        return {name: float(x.mean(dtype=np.float64)) for name, x in numbers.items() if len(x)}


def ended_in(rollout: Rollout) -> tuple[np.ndarray, np.ndarray]:
    """Returns and lengths of the episodes that ended in a rollout."""
    ended = (np.asarray(rollout.terminated) | np.asarray(rollout.truncated)) & np.asarray(rollout.valid)
    return np.asarray(rollout.episode_return)[ended], np.asarray(rollout.episode_length)[ended]


def ended_by(updates: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The same from the metrics of `train`: where several ended in one update, their mean stands for each."""
    count = updates["rollout/episodes"].astype(int)
    return np.repeat(updates["rollout/avg_return"], count), np.repeat(updates["rollout/avg_length"], count)
