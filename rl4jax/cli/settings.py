"""All settings of a run as one flat dict: names as flags have them, values as TOML and JSON have them.

Defaults, preset, `--config` file and flags are such dicts, laid over each other; so is `config.json` in the folder of a run.
"""

import dataclasses
import functools
import inspect
import re
import tomllib
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rl4jax.core.errors import ConfigError, did_you_mean, is_count, require

from .algorithms import Algorithm
from .rates import Rate, as_setting, as_typed, rate

Settings = dict[str, Any]
NAMES_ELSEWHERE = {  # what Stable-Baselines3, CleanRL, RLlib and others call ours
    "lr": "learning_rate step_size",
    "total_steps": "total_timesteps num_timesteps timesteps",
    "num_envs": "n_envs",
    "num_steps": "n_steps train_freq train_frequency unroll_length rollout_length",
    "hidden": "net_arch hidden_sizes hidden_layers",
    "update_epochs": "n_epochs num_epochs",
    "epochs": "n_epochs num_epochs",
    "clip_eps": "clip_range clip_coef",
    "normalize_advantage": "norm_adv",
    "ent_coef": "entropy_coef entropy_coeff entropy_cost",
    "vf_coef": "value_coef vf_loss_coeff baseline_cost",
    "capacity": "buffer_size buffer_capacity memory_size replay_size",
    "target_every": "target_update_interval target_network_frequency target_network_update_freq target_update_freq",
    "epsilon": "exploration_fraction exploration_initial_eps exploration_final_eps exploration start_e end_e eps",
    "learning_starts": "learning_start warmup_steps",
    "double": "double_q double_dqn",
    "dueling": "dueling_dqn",
    "prioritized": "prioritized_replay prioritized_experience_replay per",
    "priority_alpha": "prioritized_replay_alpha per_alpha",
    "priority_beta": "prioritized_replay_beta per_beta",
    "clip_rho": "vtrace_clip_rho_threshold clip_rho_threshold",
    "clip_pg_rho": "vtrace_clip_pg_rho_threshold clip_pg_rho_threshold",
}


def elsewhere(names: Iterable[str]) -> dict[str, str]:
    """What others call these settings of ours."""
    return {theirs: ours for ours in names for theirs in NAMES_ELSEWHERE.get(ours, "").split()}


@functools.cache
def known(algorithm: Algorithm) -> dict[str, tuple[Any, Any]]:
    """The kind and the default of every setting, whose numbers are floats here and whose lines are text."""
    settings = {}
    for cls in (algorithm.options, algorithm.network, algorithm.module.Config):
        hints = get_type_hints(cls)
        settings |= {field.name: (_kind(hints[field.name]), as_typed(field.default)) for field in dataclasses.fields(cls)}
    return settings


def _kind(hint: Any) -> Any:
    """A type that can be typed: `Number` and float | int are float, a number or a schedule is a rate."""
    from jax import Array

    parts = get_args(hint)
    if set(parts) == {float, int}:
        return float
    if get_origin(hint) not in (Union, types.UnionType) or Array not in parts:
        return hint
    if any(callable(part) and get_origin(part) is not None for part in parts):  # Schedule, a Callable[...]
        return Rate
    return float | None if types.NoneType in parts else float


def defaults(algorithm: Algorithm) -> Settings:
    return {name: default for name, (_, default) in known(algorithm).items()}


def part(cls: type, settings: Settings) -> Any:
    """The settings that are fields of a class, as that class."""
    return cls(**{field.name: settings[field.name] for field in dataclasses.fields(cls)})


def make_config(algorithm: Algorithm, settings: Settings, *, num_updates: int, num_steps: int) -> Any:
    """The `Config` of the algorithm, for a run of this length."""
    lengths = dict.fromkeys(algorithm.in_steps, num_steps)
    if algorithm.in_gradient_steps:
        draft = part(algorithm.module.Config, {name: as_setting(value, 1) for name, value in settings.items()})
        num_gradient_steps: int = max(round(draft.gradient_steps(num_steps - draft.learning_starts)), 1)
        lengths |= dict.fromkeys(algorithm.in_gradient_steps, num_gradient_steps)
    values = {name: as_setting(value, lengths.get(name, num_updates)) for name, value in settings.items()}
    return part(algorithm.module.Config, values)


def checked(algorithm: Algorithm, settings: Mapping[str, Any], source: str) -> Settings:
    """The settings with every value as its kind, or a `ConfigError` that names the source."""
    kinds = known(algorithm)
    for name in settings:
        if name not in kinds:
            raise ConfigError(f"{source}: {algorithm.title} has no setting {name!r}. {did_you_mean(name, kinds, elsewhere(kinds))}")
    return {name: convert(value, kinds[name][0], f"{source}: {name}") for name, value in settings.items()}


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
    if kind == tuple[str, ...]:
        require(isinstance(value, list | tuple) and all(isinstance(x, str) for x in value), name, value, "a list of strings")
        return tuple(value)  # pyright: ignore[reportArgumentType]
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


def read_toml(algorithm: Algorithm, path: str) -> Settings:
    try:
        settings = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--config {path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise ConfigError(f"--config {path} is not TOML: {error}.") from error
    return checked(algorithm, settings, f"--config {path}")


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
    """The comment behind each field of a class of ours: its help."""
    texts = {}
    for parent in reversed([parent for parent in cls.__mro__ if parent.__module__.startswith("rl4jax.")]):
        try:
            source = inspect.getsource(parent)
        except OSError:  # installed without sources
            continue
        texts |= {match[1]: match[2].strip() for match in re.finditer(r"^    (\w+): [^#\n]*#(?! fmt| noqa) *(.*)$", source, re.MULTILINE)}
    return texts
