"""Several loggers behind one."""

from collections.abc import Callable, Iterable

import numpy as np

from ..errors import require
from .logger import AbstractLogger, Logger


class CompositeLogger(AbstractLogger):
    """Hands every record to each of `loggers`, ours or not; one that raises does not keep it from the others.

    Values are fetched from the device once, for all. Closing it closes them.
    """

    def __init__(self, loggers: Iterable[Logger]):
        self._loggers = tuple(loggers)
        for i, logger in enumerate(self._loggers):
            require(isinstance(logger, Logger), f"CompositeLogger.loggers[{i}]", logger, "a Logger")

    def write_scalar(self, key: str, value: float, step: int) -> None:
        self._each(lambda logger: logger.log_scalar(key, value, step))

    def write_scalars(self, key: str, values: dict[str, float], step: int) -> None:
        self._each(lambda logger: logger.log_scalars(key, values, step))

    def write_text(self, key: str, text: str, step: int) -> None:
        self._each(lambda logger: logger.log_text(key, text, step))

    def write_histogram(self, key: str, values: np.ndarray, step: int) -> None:
        self._each(lambda logger: logger.log_histogram(key, values, step))

    def write_metrics(self, metrics: dict[str, float], step: int) -> None:
        self._each(lambda logger: logger.log_metrics(metrics, step))

    def flush_sink(self) -> None:
        self._each(lambda logger: logger.flush())

    def close_sink(self) -> None:
        self._each(lambda logger: logger.close())

    def _each(self, call: Callable[[Logger], None]) -> None:
        for i, logger in enumerate(self._loggers):
            try:
                call(logger)
            except Exception as error:
                self._warn_once(
                    f"logger {i}", f"has a {type(logger).__name__} that failed with {error!r}; training goes on, this sink may lack data."
                )
