"""`rl4jax plot RUN...`."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from rl4jax.core.errors import CheckpointError

from ..curves import RETURN
from ..flags import parse
from ..plot import plot_means, plot_runs


@dataclasses.dataclass(frozen=True)
class PlotFlags:
    runs: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="RUN...")]
    """The folders of the runs."""
    out: str | None = None
    """The PNG; none: curve.png in the folder of a single run, curves.png here for several; of another metric its name.png."""
    metric: str = RETURN
    """What to draw, as it is called in log.jsonl."""
    mean: bool = False
    """Draw runs that differ only in their seed as one: their mean, in a band from the worst to the best."""


def command(argv: Sequence[str]) -> int:
    flags = parse(PlotFlags, argv, command="plot", description="Draw the learning curves of one or several runs into one picture.")
    runs = [Path(run) for run in flags.runs]
    if not runs:
        raise CheckpointError("rl4jax plot: no run is given. Type: rl4jax plot runs/ppo-CartPole-...")
    for run in runs:
        if not run.is_dir():
            raise CheckpointError(f"{run} does not exist. Give the folder that `rl4jax train` wrote.")
    envs = sorted({str(config_of(run).get("env", run.name)) for run in runs})
    name = ("curve" if len(runs) == 1 else "curves") if flags.metric == RETURN else flags.metric.replace("/", "_")
    out = Path(flags.out) if flags.out else (runs[0] if len(runs) == 1 else Path()) / f"{name}.png"
    title = f"PPO on {', '.join(envs)}"
    if flags.mean:
        plot_means(groups_of(runs), out, key=flags.metric, title=title)
    else:
        plot_runs(runs, out, key=flags.metric, title=title)
    print(out)
    return 0


def config_of(run: Path) -> dict[str, Any]:
    """What the run was told, or nothing: a log is enough to draw."""
    try:
        return dict(json.loads((run / "config.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}


def groups_of(runs: Sequence[Path]) -> dict[str, list[Path]]:
    """Runs that differ in nothing but seed, length and housekeeping, under the settings in which they differ from the others."""
    alike = ("seed", "total_steps", "log_every", "checkpoint_every", "keep", "eval_every", "eval_episodes", "tensorboard")
    configs = {run: {name: str(value) for name, value in config_of(run).items() if name not in alike} for run in runs}
    names = sorted({name for config in configs.values() for name in config})
    differing = [name for name in names if len({config.get(name) for config in configs.values()}) > 1]
    groups: dict[str, list[Path]] = {}
    for run, config in configs.items():
        label = ", ".join(f"{name} = {config.get(name)}" for name in differing)
        groups.setdefault(label or "mean", []).append(run)
    return groups
