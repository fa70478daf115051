"""`rl4jax envs`."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..algorithms import TRAINED
from ..flags import parse

if TYPE_CHECKING:
    import gymnasium


@dataclasses.dataclass(frozen=True)
class EnvsFlags:
    pass


def command(argv: Sequence[str]) -> int:
    parse(EnvsFlags, argv, command="envs", description="List the built-in environments, their spaces, and which have a preset.")
    from rich.console import Console
    from rich.table import Table

    from rl4jax.envs.registry import BUILT_IN, make

    table = Table("environment", "observation", "action", "preset", box=None, header_style="bold")
    for name in BUILT_IN:
        env = make(name)
        table.add_row(name, short(env.observation_space), short(env.action_space), presets_of(name))
    for name in dict.fromkeys(name for algorithm in TRAINED.values() for name in algorithm.presets):
        if name not in BUILT_IN:
            table.add_row(name, "Gymnasium", "Gymnasium", presets_of(name))
    console = Console(markup=False, highlight=False, emoji=False)
    console.print(table)
    console.print("\nAny environment of Gymnasium is gym:ID, such as gym:CartPole-v1.")
    return 0


def presets_of(name: str) -> str:
    return " ".join(algorithm.name for algorithm in TRAINED.values() if name in algorithm.presets)


def short(space: "gymnasium.Space") -> str:
    """A space without the bounds of each of its numbers."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        bounds = {(float(low), float(high)) for low, high in zip(space.low.ravel(), space.high.ravel(), strict=True)}
        return f"Box{list(space.shape)} {space.dtype}" + (" {:g}..{:g}".format(*bounds.pop()) if len(bounds) == 1 else "")
    return str(space)
