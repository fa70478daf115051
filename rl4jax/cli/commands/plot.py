"""`rl4jax plot RUN...`."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from rl4jax.core.errors import CheckpointError

from ..curves import RETURN
from ..flags import parse
from ..plot import plot_runs


@dataclasses.dataclass(frozen=True)
class PlotFlags:
    runs: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="RUN...")]
    """The folders of the runs."""
    out: str | None = None
    """The PNG; none: curve.png in the folder of a single run, curves.png here for several; of another metric its name.png."""
    metric: str = RETURN
    """What to draw, as it is called in log.jsonl."""


def command(argv: Sequence[str]) -> int:
    flags = parse(PlotFlags, argv, command="plot", description="Draw the learning curves of one or several runs into one picture.")
    runs = [Path(run) for run in flags.runs]
    if not runs:
        raise CheckpointError("rl4jax plot: no run is given. Type: rl4jax plot runs/ppo-CartPole-...")
    for run in runs:
        if not run.is_dir():
            raise CheckpointError(f"{run} does not exist. Give the folder that `rl4jax train` wrote.")
    envs = sorted({env_of(run) for run in runs})
    name = ("curve" if len(runs) == 1 else "curves") if flags.metric == RETURN else flags.metric.replace("/", "_")
    out = Path(flags.out) if flags.out else (runs[0] if len(runs) == 1 else Path()) / f"{name}.png"
    plot_runs(runs, out, key=flags.metric, title=f"PPO on {', '.join(envs)}")
    print(out)
    return 0


def env_of(run: Path) -> str:
    try:
        return str(json.loads((run / "config.json").read_bytes())["env"])
    except (OSError, ValueError, LookupError, TypeError):
        return run.name  # a log is enough to draw
