"""Metrics to Weights & Biases."""

import html
from typing import Any

import numpy as np

from ..errors import missing_extra
from .logger import AbstractLogger

STEP = "global_step"  # the horizontal axis of every chart


class WandbLogger(AbstractLogger):
    """Starts a W&B run and logs to it; `init_kwargs` go to `wandb.init` (name, config, group, dir...).

    With `offline=True` nothing needs a network or an account: the run is written to `wandb/`, for `wandb sync` to send later.
    """

    def __init__(self, project: str, *, offline: bool = False, **init_kwargs: Any):
        try:
            import wandb
        except ImportError as error:
            raise missing_extra("WandbLogger", extra="wandb") from error
        if offline:
            init_kwargs["mode"] = "offline"
        self._wandb = wandb
        self._run = wandb.init(project=project, **init_kwargs)
        # W&B drops what is logged under a lower step than its own. An axis of ours may go backwards.
        self._run.define_metric(STEP)
        self._run.define_metric("*", step_metric=STEP)

    def write_scalar(self, key: str, value: float, step: int) -> None:
        self._run.log({key: value, STEP: step})

    def write_scalars(self, key: str, values: dict[str, float], step: int) -> None:
        self.write_metrics({f"{key}/{name}": value for name, value in values.items()}, step)

    def write_text(self, key: str, text: str, step: int) -> None:
        page = self._wandb.Html(f"<pre>{html.escape(text)}</pre>", data_is_not_path=True)
        self._run.log({key: page, STEP: step})

    def write_histogram(self, key: str, values: np.ndarray, step: int) -> None:
        histogram = self._wandb.Histogram(values[np.isfinite(values)].tolist())  # it cannot bin NaN or infinities
        self._run.log({key: histogram, STEP: step})

    def write_metrics(self, metrics: dict[str, float], step: int) -> None:
        self._run.log({**metrics, STEP: step})

    def flush_sink(self) -> None:
        pass  # W&B sends on its own

    def close_sink(self) -> None:
        self._run.finish()
