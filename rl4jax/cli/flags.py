"""From the words of a command line to a frozen dataclass, with a suggestion for what is not known."""

import dataclasses
import functools
import types
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar, cast, get_args, get_type_hints

from rl4jax.core.errors import ConfigError, did_you_mean

from .algorithms import Algorithm
from .options import flag_of
from .rates import Rate, rate
from .settings import Settings, checked, comments, defaults, elsewhere, known, read_toml

T = TypeVar("T")


def parse(flags: type[T], argv: Sequence[str], *, command: str, description: str, default: T | None = None) -> T:
    """Read the flags, or print help or what is wrong with a value and exit."""
    import tyro

    value, unknown = tyro.cli(
        flags, args=list(argv), prog=f"rl4jax {command}", description=description, default=default, return_unknown_args=True
    )
    if unknown:
        word = unknown[0].partition("=")[0]
        what = "flag" if word.startswith("-") else "further argument"
        fields = dataclasses.fields(flags)  # pyright: ignore[reportArgumentType]
        names = [field.name for field in fields if field.name not in ("env", "folder", "run", "runs", "teachers")]
        of_others = {flag_of(theirs): flag_of(ours) for theirs, ours in elsewhere(names).items()}
        raise ConfigError(f"rl4jax {command}: there is no {what} {word!r}. {did_you_mean(word, map(flag_of, names), of_others)}")
    return cast(T, value)


def read_settings(algorithm: Algorithm, argv: Sequence[str]) -> tuple[Any, Settings]:
    """The flags, and all settings: defaults, then the preset, then the file, then the flags."""
    cls: Any = flags_of(algorithm)
    preset = "" if algorithm.imitates else "the preset of the environment, "
    description = f"{algorithm.about} Settings come from {preset}a TOML file (--config) and flags; the later ones win."
    read = functools.partial(parse, cls, command=algorithm.command, description=description)
    asked_help = [word for word in argv if word in ("-h", "--help")]
    first = read([word for word in argv if word not in asked_help])
    file = read_toml(algorithm, first.config) if first.config else {}
    usual = defaults(algorithm) | preset_of(algorithm, first, file) | file
    flags = read(asked_help or argv, default=cls(**{name: usual[name] for name in usual if name in cls.__dataclass_fields__}))
    return flags, {name: getattr(flags, name, default) for name, default in defaults(algorithm).items()}


def preset_of(algorithm: Algorithm, flags: Any, file: Settings) -> Settings:
    """The settings that are known to learn in the environment, if there are any and they are asked for."""
    if algorithm.imitates or not flags.preset:
        return {}
    env = flags.env or file.get("env", "")
    return checked(algorithm, algorithm.presets.get(env, {}), f"preset of {env}")


@functools.cache
def flags_of(algorithm: Algorithm) -> type:
    """The flags of the command and every setting of the algorithm, as one dataclass that tyro can read."""
    import tyro

    classes = (algorithm.options, algorithm.network, algorithm.module.Config, algorithm.flags)
    help_of = {name: text for cls in classes for name, text in comments(cls).items()}
    own = {field.name: (get_type_hints(algorithm.flags)[field.name], field.default) for field in dataclasses.fields(algorithm.flags)}
    metavars = {"env": "ENV", "teachers": "RUN..." if algorithm.name == "distill" else "RUN"}
    fields = []
    for name, (kind, default) in (known(algorithm) | own).items():
        arg = tyro.conf.arg(help=help_of.get(name), metavar=metavars.get(name), help_behavior_hint=shown_default)
        hint = Annotated[flag_type(kind, name), arg]
        if name == algorithm.positional:
            fields.append((name, tyro.conf.Positional[hint], default))
        elif name != "env":  # a clone's is that of its teacher
            fields.append((name, hint, default))
    return dataclasses.make_dataclass("Flags", fields, frozen=True)


def shown_default(default: str) -> str:
    """The end of a help text. Where nothing is given by default, nothing is said."""
    return f"(default: {default})" if default.strip("'") else ""


def flag_type(kind: Any, name: str) -> Any:
    """The kind as tyro should read it: rates and what may be none are spelled as in TOML."""
    from tyro.constructors import PrimitiveConstructorSpec

    optional = types.NoneType in get_args(kind)
    if not optional and kind not in (Rate, int):
        return kind

    def read(words: list[str]) -> Any:
        if kind is Rate:
            return rate(words[0], f"--{name}")
        if optional and words[0].lower() == "none":
            return None
        base: Any = next(part for part in get_args(kind) if part is not types.NoneType) if optional else kind
        if base is int and words[0].replace(".", "").replace("e", "").isdigit() and float(words[0]).is_integer():
            return int(float(words[0]))  # 1e6 is a whole number too
        return base(words[0])

    parts = get_args(kind) if optional else (kind,)
    metavar = (
        "FLOAT|linear(START,END)|linear(START,END,LENGTH)" if kind is Rate else "|".join(getattr(p, "__name__", "").upper() for p in parts)
    )
    spec = PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar.replace("NONETYPE", "none"),
        instance_from_str=read,
        is_instance=lambda x: True,
        str_from_instance=lambda x: ["none" if x is None else str(x)],
    )
    return Annotated[object, spec]
