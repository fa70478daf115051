"""Metrics as lines in the terminal."""

import sys

import numpy as np

from ..errors import require
from .logger import AbstractLogger, Stream


class PrintLogger(AbstractLogger):
    """Prints lines such as `[step 5000] train/loss: 0.4200`, to stderr unless a stream is given.

    Everything logged at a printed step is printed; the next printed step is at least `every` steps later, or lower (a new run).
    Histograms are ignored.
    """

    def __init__(self, every: int = 0, stream: Stream | None = None):
        require(isinstance(every, int) and every >= 0, "PrintLogger.every", every, "zero (print every step) or a positive number of steps")
        self._every = every
        self._stream = stream
        self._printed: int | None = None  # the last step that was printed

    def write_scalar(self, key: str, value: float, step: int) -> None:
        self._print(f"{key}: {readable(value)}", step)

    def write_scalars(self, key: str, values: dict[str, float], step: int) -> None:
        self._print("  ".join(f"{key}/{name}: {readable(value)}" for name, value in values.items()), step)

    def write_text(self, key: str, text: str, step: int) -> None:
        self._print(f"{key}: {text}", step)

    def write_histogram(self, key: str, values: np.ndarray, step: int) -> None:
        pass

    def write_metrics(self, metrics: dict[str, float], step: int) -> None:
        self._print("  ".join(f"{key}: {readable(value)}" for key, value in metrics.items()), step)

    def flush_sink(self) -> None:
        self._out().flush()

    def close_sink(self) -> None:
        self._out().flush()

    def _print(self, line: str, step: int) -> None:
        if self._printed is not None and self._printed < step < self._printed + self._every:
            return
        self._printed = step
        print(f"[step {step}] {line}", file=self._out())

    def _out(self) -> Stream:
        return sys.stderr if self._stream is None else self._stream  # looked up late: notebooks and tests replace it


def readable(value: float) -> str:
    """Four decimals, unless they would hide the number.

    >>> [readable(x) for x in (0.42, 2.5e-5, -3e9, 0.0, float("nan"))]
    ['0.4200', '2.500e-05', '-3.000e+09', '0.0000', 'nan']
    """
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e6 else f"{value:.3e}"
