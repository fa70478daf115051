"""What a logger is, and the promise that all of ours keep: a log never stops training."""

import abc
import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from jax.typing import ArrayLike
else:
    ArrayLike = Any  # so that a script which only reads logs does not wait for jax to load

T = TypeVar("T")


@runtime_checkable
class Stream(Protocol):
    """Where text goes: a file, `sys.stderr`, `io.StringIO`, or whatever else takes these two calls."""

    def write(self, text: str, /) -> Any: ...

    def flush(self) -> Any: ...


@runtime_checkable
class Logger(Protocol):
    """Anything that takes these calls is a logger; nothing needs to be inherited.

    Keys are paths such as `train/loss`; `step` counts environment steps, or whatever the caller counts, from zero.
    """

    def log_scalar(self, key: str, value: ArrayLike, step: ArrayLike) -> None:
        """Log one number."""

    def log_scalars(self, key: str, values: Mapping[str, ArrayLike], step: ArrayLike) -> None:
        """Log numbers that belong together, such as the losses of several agents, under one key."""

    def log_text(self, key: str, text: str, step: ArrayLike) -> None:
        """Log a note, such as the configuration of the run."""

    def log_histogram(self, key: str, values: ArrayLike | Sequence[float], step: ArrayLike) -> None:
        """Log the distribution of many numbers, such as weights."""

    def log_metrics(self, metrics: Mapping[str, ArrayLike], step: ArrayLike) -> None:
        """Log every entry of a flat dict of scalars: what an `update` returns."""

    def flush(self) -> None:
        """Write out what is held back."""

    def close(self) -> None:
        """Flush and let go of the sink."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> None: ...


class AbstractLogger(abc.ABC):
    """A logger in terms of its sink: implement the `write_*` hooks, `flush_sink` and `close_sink`.

    Hooks get Python floats, float64 arrays and Python ints, and may raise: the first error becomes a warning, and the record is lost.
    A value that cannot be logged is skipped, with a warning that names its key. Neither is worth a training run.
    """

    _closed = False
    _warned: frozenset[str] = frozenset()

    @abc.abstractmethod
    def write_scalar(self, key: str, value: float, step: int) -> None: ...

    @abc.abstractmethod
    def write_scalars(self, key: str, values: dict[str, float], step: int) -> None: ...

    @abc.abstractmethod
    def write_text(self, key: str, text: str, step: int) -> None: ...

    @abc.abstractmethod
    def write_histogram(self, key: str, values: np.ndarray, step: int) -> None: ...

    @abc.abstractmethod
    def write_metrics(self, metrics: dict[str, float], step: int) -> None: ...

    @abc.abstractmethod
    def flush_sink(self) -> None: ...

    @abc.abstractmethod
    def close_sink(self) -> None: ...

    def log_scalar(self, key: str, value: ArrayLike, step: ArrayLike) -> None:
        with self._guard():
            accepted, count = self._accept({key: value}, step, to_float)
            if accepted:
                self.write_scalar(key, accepted[key], count)

    def log_scalars(self, key: str, values: Mapping[str, ArrayLike], step: ArrayLike) -> None:
        with self._guard():
            accepted, count = self._accept({f"{key}/{name}": value for name, value in on_host(values).items()}, step, to_float)
            if accepted:
                self.write_scalars(key, {name.removeprefix(f"{key}/"): value for name, value in accepted.items()}, count)

    def log_text(self, key: str, text: str, step: ArrayLike) -> None:
        with self._guard():
            accepted, count = self._accept({key: text}, step, str)
            if accepted:
                self.write_text(key, accepted[key], count)

    def log_histogram(self, key: str, values: ArrayLike | Sequence[float], step: ArrayLike) -> None:
        with self._guard():
            accepted, count = self._accept({key: values}, step, to_floats)
            if accepted:
                self.write_histogram(key, accepted[key], count)

    def log_metrics(self, metrics: Mapping[str, ArrayLike], step: ArrayLike) -> None:
        with self._guard():
            accepted, count = self._accept(on_host(metrics), step, to_float)
            if accepted:
                self.write_metrics(accepted, count)

    def flush(self) -> None:
        if not self._closed:
            with self._guard():
                self.flush_sink()

    def close(self) -> None:
        """Write what is left and let go of the sink. Closing twice is fine."""
        if not self._closed:
            self._closed = True
            with self._guard():
                self.close_sink()

    def __enter__(self):
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _accept(self, values: Mapping[str, Any], step: Any, convert: Callable[[Any], T]) -> tuple[dict[str, T], int]:
        """The values that can be logged, converted, and the step; none of them if the logger is closed or the step is wrong."""
        if self._closed:
            self._warn_once("closed", f"is closed; what is logged after close() is lost, beginning with {list(values)}.")
            return {}, 0
        try:
            count = to_step(step)
        except Exception as error:
            self._warn_once("step", f"skipped {list(values)}: {error}")
            return {}, 0
        accepted = {}
        for key, value in values.items():
            try:
                accepted[key] = convert(value)
            except Exception as error:
                self._warn_once(f"key {key}", f"skipped {key!r}, now and whenever it is like this: {error}")
        return accepted, count

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._warn_once("sink", f"failed with {error!r}; training goes on, this sink may lack data.")

    def _warn_once(self, about: str, what: str) -> None:
        if about not in self._warned:
            self._warned |= {about}
            warnings.warn(f"{type(self).__name__} {what}", RuntimeWarning, stacklevel=2)


def on_host(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same dict with its JAX arrays fetched together, so that the device is waited for once."""
    jax = sys.modules.get("jax")
    if jax is None:  # then nobody can have made a JAX array
        return dict(values)
    try:
        return dict(zip(values, jax.device_get(list(values.values())), strict=True))
    except Exception:  # one bad value, such as a tracer, must not cost the others: they are converted, and blamed, one by one
        return dict(values)


def to_float(value: Any) -> float:
    array = numeric(value)
    if array.shape != ():
        raise ValueError(f"a metric must be a scalar, not an array of shape {array.shape}. Reduce it, or use log_histogram.")
    return float(array.item())


def to_floats(values: Any) -> np.ndarray:
    return numeric(values).astype(np.float64).reshape(-1)


def numeric(value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind in "cmMSUO":  # a list of them, since the small floats of machine learning are of NumPy's kind "V"
        raise TypeError(f"{type(value).__name__} of dtype {array.dtype} is not a real number.")
    return array


def to_step(step: Any) -> int:
    number = to_float(step)
    if not (number >= 0 and number.is_integer()):
        raise ValueError(f"step = {step} must be a whole number, zero or more.")
    return int(np.asarray(step).item())  # not int(number): floats miscount beyond 2**53
