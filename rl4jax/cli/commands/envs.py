"""`rl4jax envs`, and `rl4jax envs ENV`."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import tyro

from ..algorithms import TRAINED, hint_at_twin
from ..flags import parse
from ..settings import to_toml

if TYPE_CHECKING:
    import gymnasium


@dataclasses.dataclass(frozen=True)
class EnvsFlags:
    env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV", help_behavior_hint="")] = ""
    """Show the presets of this one."""


def command(argv: Sequence[str]) -> int:
    about = "List the built-in environments, their spaces, and which have a preset; or show the presets of one environment."
    flags = parse(EnvsFlags, argv, command="envs", description=about)
    if flags.env:
        print_presets(flags.env)
    else:
        print_table()
    return 0


def print_table() -> None:
    from rich.console import Console
    from rich.table import Column, Table

    from rl4jax.envs.registry import BUILT_IN

    from ..environment import GYM, make_picture_env

    names = list(dict.fromkeys([*BUILT_IN, *(name for algorithm in TRAINED.values() for name in algorithm.presets)]))
    table = Table(Column("environment", no_wrap=True), "observation", "action", "preset", box=None, header_style="bold")
    for name in names:
        env = None if name.startswith(GYM) else make_picture_env(name)
        spaces = (short(env.observation_space), short(env.action_space)) if env else ("Gymnasium", "Gymnasium")
        table.add_row(name, *spaces, presets_of(name))
    console = Console(markup=False, highlight=False, emoji=False)
    console.width = max(console.width, 80)  # below that names would be cut, and they are there to be typed
    console.print(table)
    console.print("\nAny environment of Gymnasium is gym:ID, such as gym:CartPole-v1. `rl4jax envs ENV` shows the presets of one.")
    console.print("Fields of a built-in one follow its name: Catch,rows=16,columns=16.")


def print_presets(name: str) -> None:
    """What each algorithm begins with in an environment, as a file for `--config` would say it."""
    from ..environment import close, make_env

    if not presets_of(name):
        close(make_env(name, 1))  # raises if there is none of this name
        print(f"No preset for {name}: every algorithm begins with its defaults.{hint_at_twin(name, TRAINED.values())}")
    for algorithm in TRAINED.values():
        if name in algorithm.presets:
            print(f"# rl4jax {algorithm.command} {name}\n{to_toml(dict(algorithm.presets[name]))}")


def presets_of(name: str) -> str:
    return " ".join(algorithm.name for algorithm in TRAINED.values() if name in algorithm.presets)


def short(space: "gymnasium.Space") -> str:
    """A space without the bounds of each of its numbers."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        bounds = {(float(low), float(high)) for low, high in zip(space.low.ravel(), space.high.ravel(), strict=True)}
        return f"Box{list(space.shape)} {space.dtype}" + (" {:g}..{:g}".format(*bounds.pop()) if len(bounds) == 1 else "")
    return str(space)
