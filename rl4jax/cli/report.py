"""What a finished run has to show: its result, its curve, an episode, and how to look further."""

import json
import math
import sys
from pathlib import Path
from typing import Any

from rl4jax.core.errors import Rl4JaxError
from rl4jax.core.figures import plus_minus

from .output import hint
from .plot import plot_runs
from .policy import make_policy
from .progress import Progress
from .recording import record_episode
from .run import AbstractRun
from .session import Outcome


def result_of(run: AbstractRun, outcome: Outcome) -> dict[str, Any]:
    """The line of `--json`. Seconds are over all processes of the run; those of training are without compiling and evaluating."""
    train_seconds, compile_seconds = outcome.tally.seconds
    evaluation, unit = outcome.tally.evaluation or {}, run.algorithm.unit
    return {
        "eval_return_mean": _finite(evaluation.get("mean")),
        "eval_return_std": _finite(evaluation.get("std")),
        unit: outcome.step,
        "train_seconds": round(train_seconds, 3),
        "compile_seconds": round(compile_seconds, 3),
        f"{unit}_per_second": round(outcome.step / train_seconds, 1) if train_seconds > 0 else None,
        "env": run.options.env,
        "seed": run.options.seed,
        "out": str(run.path),
        "skipped_updates": outcome.tally.total_skipped,
    }


def is_reported(run: AbstractRun, outcome: Outcome) -> bool:
    """Whether an earlier process already wrote down the result of this run."""
    if not outcome.was_finished or not (run.path / "result.json").exists():
        return False
    return run.directory.read_json("result.json").get(run.algorithm.unit) == outcome.step


def picture_paths(run: AbstractRun) -> dict[str, Path]:
    return {"curve": run.path / "curve.png", "episode": run.path / "episode.gif"}


def make_pictures(run: AbstractRun, outcome: Outcome, progress: Progress) -> dict[str, Path]:
    """The curve and the GIF. A picture that cannot be made is no reason to fail: that it cannot is said."""
    curve, gif = picture_paths(run).values()

    def draw_curve() -> None:
        plot_runs([run.path], curve, title=run.title, key=run.algorithm.curve, unit=run.algorithm.unit)

    def draw_episode() -> None:
        policy = make_policy(outcome.state.policy, run.env)
        record_episode(run.options.env, policy, gif, key=run.key("picture", outcome.step))

    made = {}
    for what, path, draw in (("curve", curve, draw_curve), ("episode", gif, draw_episode)):
        try:
            with progress.waiting(f"drawing the {what}"):
                draw()
            made[what] = path
        except Exception as error:  # a renderer may fail in any way, and the run is done
            name = "" if isinstance(error, Rl4JaxError | ImportError) else f"{type(error).__name__}: "
            progress.say(f"No {what}: {name}{error}", "yellow")
    return made


def print_result(
    run: AbstractRun, result: dict[str, Any], pictures: dict[str, Path], evaluation: dict[str, int | float], *, as_json: bool
) -> None:
    """One line of JSON, or words."""
    if as_json:
        print(json.dumps(result))
        sys.stdout.flush()
        return
    unit = run.algorithm.unit
    speed = f"{result[f'{unit}_per_second']:,.0f} {unit}/s" if result[f"{unit}_per_second"] else f"no {unit} timed"
    print(f"\n{result[unit]:,} {unit} in {result['train_seconds']:.1f} s ({speed}), and {result['compile_seconds']:.1f} s of compiling")
    mean, std = (math.nan if result[name] is None else result[name] for name in ("eval_return_mean", "eval_return_std"))
    print(f"Evaluation: return {plus_minus(mean, std)} over {evaluation.get('episodes', 0):.0f} episodes, greedy\n")
    for what, path in pictures.items():
        print(f"  {what:<9}{path}")
    print(f"  watch    {hint('record', run.path)}")
    print(f"  compare  {hint('plot', run.path)} OTHER_RUN ...")
    print(f"  use      act = rl.load_policy({str(run.path)!r});  action, carry = act(obs)")


def _finite(x: float | None) -> float | None:
    return x if x is not None and math.isfinite(x) else None
