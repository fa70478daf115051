"""From the words of a command line to a frozen dataclass, with a suggestion for what is not known."""

import dataclasses
import functools
import types
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar, cast, get_args, get_type_hints

from rl4jax.core.errors import ConfigError, did_you_mean

from .options import Options, TrainFlags
from .settings import ELSEWHERE, Rate, comments, known, rate

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
        names = [_flag(field.name) for field in fields if field.name not in ("env", "run", "runs")]
        elsewhere = {_flag(theirs): _flag(ours) for theirs, ours in ELSEWHERE.items()}
        raise ConfigError(f"rl4jax {command}: there is no {what} {word!r}. {did_you_mean(word, names, elsewhere)}")
    return cast(T, value)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@functools.cache
def train_flags() -> type:
    """`TrainFlags` and every field of `ppo.Config`, as one dataclass that tyro can read."""
    import tyro

    from rl4jax.algo import ppo

    help_of = comments(Options) | comments(TrainFlags) | comments(ppo.Config)
    own = {field.name: (get_type_hints(TrainFlags)[field.name], field.default) for field in dataclasses.fields(TrainFlags)}
    fields = []
    for name, (kind, default) in (own | known()).items():
        metavar = "ENV" if name == "env" else None
        hint = Annotated[flag_type(kind, name), tyro.conf.arg(help=help_of.get(name), metavar=metavar)]
        fields.append((name, tyro.conf.Positional[hint] if name == "env" else hint, default))
    return dataclasses.make_dataclass("Flags", fields, frozen=True)


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
    metavar = "FLOAT|linear(START,END)" if kind is Rate else "|".join(getattr(p, "__name__", "").upper() for p in parts)
    spec = PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar.replace("NONETYPE", "none"),
        instance_from_str=read,
        is_instance=lambda x: True,
        str_from_instance=lambda x: ["none" if x is None else str(x)],
    )
    return Annotated[object, spec]
