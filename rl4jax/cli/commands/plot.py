"""`rl4jax plot RUN...`."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from rl4jax.core.errors import CheckpointError

from ..algorithms import ALGORITHMS, Algorithm
from ..curves import EVALUATIONS, RETURN
from ..flags import parse
from ..plot import plot_means, plot_runs

ALIKE = ("seed", "total_steps", "log_every", "checkpoint_every", "keep", "eval_every", "eval_episodes", "tensorboard", "updates_per_turn")


@dataclasses.dataclass(frozen=True)
class PlotFlags:
    runs: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="RUN...", help_behavior_hint="")]
    """The folders of the runs."""
    out: str | None = None
    """The PNG; none: curve.png in the folder of a single run, curves.png here for several; of another metric its name.png."""
    metric: str | None = None
    """What to draw, as it is called in log.jsonl; none: returns, of a clone the loss, of both together evaluations."""
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
    configs = [config_of(run) for run in runs]
    algorithm = algorithm_of(configs[0])
    kinds = {algorithm_of(config).curve for config in configs}
    usual = algorithm.curve if len(kinds) == 1 else EVALUATIONS[RETURN]  # a clone has no returns on the way
    metric = flags.metric or usual
    name = ("curve" if len(runs) == 1 else "curves") if metric == usual else metric.replace("/", "_")
    out = Path(flags.out) if flags.out else (runs[0] if len(runs) == 1 else Path()) / f"{name}.png"
    titles = dict.fromkeys(algorithm_of(config).title for config in configs)
    envs = [str(config.get("env", run.name)) for run, config in zip(runs, configs, strict=True)]
    about = {"key": metric, "title": f"{', '.join(titles)} on {', '.join(sorted(set(envs)))}", "unit": algorithm.unit}
    if flags.mean:
        plot_means(groups_of(runs), out, **about)
    else:
        plot_runs(runs, out, names=names_of(runs, envs), **about)
    print(out)
    return 0


def names_of(runs: Sequence[Path], envs: Sequence[str]) -> list[str]:
    """What tells the runs apart: their folders, and their environments if these differ."""
    if len(runs) == 1:
        return ["training"]
    names = [run.resolve().name for run in runs]
    if len(set(names)) < len(runs):
        names = [str(run) for run in runs]
    if len(set(envs)) == 1:
        return names
    return [name if env in name else f"{name} ({env})" for name, env in zip(names, envs, strict=True)]


def config_of(run: Path) -> dict[str, Any]:
    """What the run was told, or nothing: a log is enough to draw."""
    try:
        return dict(json.loads((run / "config.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}


def algorithm_of(config: dict[str, Any]) -> Algorithm:
    """Whose run it is; PPO's if nobody knows."""
    return ALGORITHMS.get(config.get("algorithm", ""), ALGORITHMS["ppo"])


def groups_of(runs: Sequence[Path]) -> dict[str, list[Path]]:
    """Runs that differ in nothing but seed, length and housekeeping, under the settings in which they differ from the others."""
    configs = {run: {name: str(value) for name, value in config_of(run).items() if name not in ALIKE} for run in runs}
    algorithms = dict.fromkeys(config.get("algorithm", "") for config in configs.values())
    groups: dict[str, list[Path]] = {}
    for algorithm in algorithms:  # those of different ones have different settings anyway
        members = {run: config for run, config in configs.items() if config.get("algorithm", "") == algorithm}
        names = sorted({name for config in members.values() for name in config})
        differing = [name for name in names if len({config.get(name) for config in members.values()}) > 1]
        for run, config in members.items():
            parts = [algorithm] * (len(algorithms) > 1) + [f"{name} = {config.get(name)}" for name in differing]
            groups.setdefault(", ".join(parts) or "mean", []).append(run)
    return groups
