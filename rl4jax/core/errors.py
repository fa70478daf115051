"""Errors that name the argument, show the value, state the rule and give the fix."""

import difflib
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import numpy as np


class Rl4JaxError(Exception):
    """Any error that rl4jax raises on purpose."""


class EnvError(Rl4JaxError):
    """An environment breaks its contract, or is used against it."""


class ShapeError(Rl4JaxError, ValueError):
    """An array has the wrong shape or dtype."""


class CheckpointError(Rl4JaxError):
    """A file of weights or state cannot be read."""


class ConfigError(Rl4JaxError, ValueError):
    """A setting is outside its range."""


def require(ok: bool, name: str, value: Any, rule: str, fix: str = "") -> None:
    """Raise `ConfigError` unless `ok`.

    >>> require(0 > 0, "VecEnv.num_envs", 0, "a positive integer")
    Traceback (most recent call last):
    rl4jax.core.errors.ConfigError: VecEnv.num_envs = 0 must be a positive integer.
    """
    if not ok:
        raise ConfigError(f"{name} = {value!r} must be {rule}." + (f" {fix}" if fix else ""))


def is_count(x: object) -> bool:
    """Whether x is a positive integer, Python's or NumPy's, and not True."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool) and int(x) > 0


def is_number(x: Any) -> bool:
    """Whether x is one finite number, Python's, NumPy's or JAX's, and not True."""
    number = np.asarray(x)
    return number.ndim == 0 and number.dtype.kind in "iuf" and bool(np.isfinite(number))


def is_count_or_zero(x: Any) -> bool:
    """Whether x is zero or a positive integer, and not False."""
    return is_count(x) or (is_number(x) and x == 0)


def did_you_mean(name: str, known: Iterable[str], elsewhere: Mapping[str, str] = MappingProxyType({})) -> str:
    """A sentence that suggests the nearest of the known names, and lists them all; `elsewhere` has names that others use for ours."""
    known = sorted(known)
    folded = {k.lower(): k for k in known} | {k: v for k, v in elsewhere.items() if v in known}
    near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    guess = f"Did you mean {folded[near[0]]!r}? " if near else ""
    return f"{guess}Known: {', '.join(known)}."


class MissingPackage(ImportError):
    """An optional package is not installed. It says how to install it."""


def missing_extra(what: str, *, extra: str) -> MissingPackage:
    """The error for an optional package that is not installed."""
    return MissingPackage(f"{what} needs an optional package. Install it with: pip install 'rl4jax[{extra}]'")


def missing_package(what: str, *packages: str) -> MissingPackage:
    """The error where an extra would bring more than is needed: what runs policies installs no JAX."""
    absent = [package for package in packages if find_spec(package) is None] or packages
    absent = ["pillow" if package == "PIL" else package for package in absent]
    return MissingPackage(f"{what} needs {' and '.join(absent)}. Install with: pip install {' '.join(absent)}")


def choose_divisor(whole: int) -> str:
    """How to mend a number that must divide another.

    >>> choose_divisor(6)
    'Choose one of [1, 2, 3, 6].'
    """
    return f"Choose one of {[n for n in range(1, whole + 1) if whole % n == 0]}."
