"""The learning curves of a run, as numbers: what was logged, against environment steps."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rl4jax.core.errors import CheckpointError, did_you_mean

from .history import LOG, scalars

RETURN = "rollout/avg_return"
EVALUATIONS = {RETURN: "eval/return_mean", "train/loss": "eval/loss"}  # what tells how good a curve is where it was not trained


class Curve(NamedTuple):
    """One metric of one run."""

    steps: np.ndarray
    values: np.ndarray

    @property
    def is_long(self) -> bool:
        return len(self.values) >= 50

    def smoothed(self, share: float = 0.05) -> "Curve":
        """The running mean over a share of the points, half before and half behind each; near the ends over what there is.

        A curve of few points is left as it is: it has no noise to take away, and each of its points counts.
        """
        if not self.is_long:
            return self
        half = max(int(len(self.values) * share / 2), 1)
        sums = np.concatenate([[0.0], np.cumsum(self.values)])
        left = np.maximum(np.arange(len(self.values)) - half, 0)
        right = np.minimum(np.arange(len(self.values)) + half + 1, len(self.values))
        return Curve(self.steps, (sums[right] - sums[left]) / (right - left))


class Band(NamedTuple):
    """One metric of several runs: their mean, and the worst and the best of them."""

    mean: Curve
    low: np.ndarray
    high: np.ndarray


def band_of(curves: Sequence[Curve]) -> Band:
    """Several curves as one, at the steps of all of them, as far as all of them go."""
    start, end = max(curve.steps[0] for curve in curves), min(curve.steps[-1] for curve in curves)
    steps = np.unique(np.concatenate([curve.steps for curve in curves]))
    steps = steps[(steps >= start) & (steps <= end)]
    if not len(steps):
        raise CheckpointError("plot --mean: the runs have no steps in common. Give runs that were trained alike.")
    values = np.stack([np.interp(steps, curve.steps, curve.values) for curve in curves])
    return Band(Curve(steps, values.mean(0)), values.min(0), values.max(0))


def read_curves(run: Path) -> dict[str, Curve]:
    """Every metric in the log of a run; values that are not finite are left out."""
    points: dict[str, list[tuple[int, float]]] = {}
    for key, value, step in scalars(run / LOG):
        if np.isfinite(value):
            points.setdefault(key, []).append((step, value))
    return {key: Curve(*(np.array(column) for column in zip(*sorted(rows), strict=True))) for key, rows in points.items()}


def find_curve(run: Path, key: str) -> Curve:
    """One metric of a run that must have it."""
    curves = read_curves(run)
    if not curves:
        raise CheckpointError(f"{run} has no {LOG} with points yet. Give the folder of a run that has trained for a while.")
    if key not in curves:
        why = "No episode has ended yet." if key == RETURN and any(name.startswith("rollout/") for name in curves) else None
        why = why or did_you_mean(key, curves)
        raise CheckpointError(f"{run} has no metric {key!r}. {why}")
    return curves[key]
