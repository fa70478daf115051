"""All settings of a run as one flat dict: names as flags have them, values as TOML and JSON have them.

Defaults, preset, `--config` file and flags are such dicts, laid over each other; so is `config.json` in the folder of a run.
"""

import dataclasses
import functools
import inspect
import re
import tomllib
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rl4jax.core.errors import ConfigError, did_you_mean, is_count, require

from .options import Options

Settings = dict[str, Any]
ELSEWHERE = {  # what Stable-Baselines3 and CleanRL call ours
    "learning_rate": "lr", "n_steps": "num_steps", "n_epochs": "update_epochs", "clip_range": "clip_eps", "clip_coef": "clip_eps",
    "total_timesteps": "total_steps", "n_envs": "num_envs", "net_arch": "hidden", "norm_adv": "normalize_advantage",
}  # fmt: skip


class Rate:
    """The kind of a setting that is a number or `linear(START, END)`, a straight line over the whole run."""

    pattern = re.compile(r"\s*linear\(\s*([^,\s]+)\s*,\s*([^,\s]+)\s*\)\s*")


@functools.cache
def known() -> dict[str, tuple[Any, Any]]:
    """The kind and the default of every setting: `Options`, then `ppo.Config`, whose numbers are floats here."""
    from rl4jax.algo import ppo

    settings = {}
    for cls in (Options, ppo.Config):
        hints = get_type_hints(cls)
        settings |= {field.name: (_kind(hints[field.name]), field.default) for field in dataclasses.fields(cls)}
    return settings


def _kind(hint: Any) -> Any:
    """A type that can be typed: `Number` is float, a number or a schedule is a rate."""
    from jax import Array

    parts = get_args(hint)
    if get_origin(hint) not in (Union, types.UnionType) or Array not in parts:
        return hint
    if any(callable(part) and get_origin(part) is not None for part in parts):  # Schedule, a Callable[...]
        return Rate
    return float | None if types.NoneType in parts else float


def defaults() -> Settings:
    return {name: default for name, (_, default) in known().items()}


def checked(settings: Mapping[str, Any], source: str) -> Settings:
    """The settings with every value as its kind, or a `ConfigError` that names the source."""
    for name in settings:
        if name not in known():
            raise ConfigError(f"{source}: there is no setting {name!r}. {did_you_mean(name, known(), ELSEWHERE)}")
    return {name: convert(value, known()[name][0], f"{source}: {name}") for name, value in settings.items()}


def convert(value: Any, kind: Any, name: str) -> Any:
    """A value of a TOML file or a preset as its kind.

    >>> convert("linear(1e-3, 0)", Rate, "lr"), convert("none", float | None, "target_kl"), convert(1, float, "gamma")
    ('linear(0.001, 0.0)', None, 1.0)
    """
    parts = get_args(kind)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if types.NoneType in parts and (value is None or value in ("none", "None")):
        return None
    if kind is Rate:
        return float(value) if is_number else rate(value, name)
    if float in (kind, *parts):
        require(is_number, name, value, 'a number, or "none"' if parts else "a number")
        return float(value)
    if get_origin(kind) is tuple:
        require(isinstance(value, list | tuple) and all(is_count(x) for x in value), name, value, "a list of positive integers")
        return tuple(value)  # pyright: ignore[reportArgumentType]
    if get_origin(kind) is Literal:
        require(value in parts, name, value, "one of " + ", ".join(parts))
        return value
    if int in (kind, *parts):
        whole = is_number and float(value).is_integer()  # 1e6 too
        require(whole, name, value, 'an integer, or "none"' if parts else "an integer")
        return int(value)
    require(isinstance(value, kind), name, value, {bool: "true or false", str: "a string"}[kind])
    return value


def rate(text: Any, name: str) -> float | str:
    """What was typed, in one spelling."""
    try:
        match = Rate.pattern.fullmatch(text)
        return f"linear({float(match[1])}, {float(match[2])})" if match else float(text)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} = {text!r} must be a number or linear(START, END), such as 'linear(3e-4, 0)'.") from error


def read_toml(path: str) -> Settings:
    try:
        settings = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--config {path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise ConfigError(f"--config {path} is not TOML: {error}.") from error
    return checked(settings, f"--config {path}")


def to_toml(settings: Settings) -> str:
    """Lines that `read_toml` reads back.

    >>> print(to_toml({"env": "CartPole", "hidden": (64, 64), "target_kl": None, "shared": False}), end="")
    env = "CartPole"
    hidden = [64, 64]
    target_kl = "none"
    shared = false
    """
    return "".join(f"{name} = {_toml(value)}\n" for name, value in settings.items())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    if value is None or isinstance(value, str):
        text = (value or "none").replace("\\", "\\\\").replace('"', '\\"')
        return f'"{text}"'
    return repr(value)


@functools.cache
def comments(cls: type) -> dict[str, str]:
    """The comment behind each field of a class: its help."""
    try:
        source = inspect.getsource(cls)
    except OSError:  # installed without sources
        return {}
    return {match[1]: match[2].strip() for match in re.finditer(r"^    (\w+): [^#\n]*#(?! fmt| noqa) *(.*)$", source, re.MULTILINE)}
