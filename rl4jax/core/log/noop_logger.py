"""A logger that forgets everything, for callers who do not care."""

from collections.abc import Mapping, Sequence
from typing import Any

from .logger import ArrayLike


class NoopLogger:
    """Discards everything. Does not even look at the values, so it never waits for the device."""

    def log_scalar(self, key: str, value: ArrayLike, step: ArrayLike) -> None:
        pass

    def log_scalars(self, key: str, values: Mapping[str, ArrayLike], step: ArrayLike) -> None:
        pass

    def log_text(self, key: str, text: str, step: ArrayLike) -> None:
        pass

    def log_histogram(self, key: str, values: ArrayLike | Sequence[float], step: ArrayLike) -> None:
        pass

    def log_metrics(self, metrics: Mapping[str, ArrayLike], step: ArrayLike) -> None:
        pass

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error: Any) -> None:
        pass
