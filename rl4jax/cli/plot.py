"""Learning curves as a picture."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rl4jax.core.errors import missing_extra

from .curves import EVALUATION, RETURN, find_curve, read_curves

INK, FAINT = "#33373d", "#d9dce1"
COLOURS = ("#2f6fde", "#e2662d", "#1f9d6b", "#a04fc4", "#c9a100", "#d6336c", "#12a3b8", "#7a6a58")  # told apart also when printed grey


def plot_runs(runs: Sequence[Path], out: Path, *, key: str = RETURN, title: str = "") -> None:
    """Draw one metric of several runs into one PNG: points faint, running mean solid, evaluations as dots."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter
    except ImportError as error:
        raise missing_extra("A picture of the learning curve", extra="plot") from error

    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    names = [run.resolve().name for run in runs]
    if len(set(names)) < len(runs):
        names = [str(run) for run in runs]
    marks: dict[str, Any] = {"marker": "o", "markersize": 6, "markeredgecolor": "white", "linestyle": "none", "zorder": 5, "clip_on": False}
    evaluated = False
    for i, (run, name) in enumerate(zip(runs, names, strict=True)):
        curve, colour = find_curve(run, key), COLOURS[i % len(COLOURS)]
        axes.plot(curve.steps, curve.values, color=colour, alpha=0.25, linewidth=1, solid_joinstyle="round")
        smooth = curve.smoothed()
        label = name if len(runs) > 1 else "training (running mean)"
        axes.plot(smooth.steps, smooth.values, color=colour, linewidth=2, label=label, solid_capstyle="round")
        evaluation = read_curves(run).get(EVALUATION)
        if key == RETURN and evaluation is not None:
            evaluated = True
            axes.plot(evaluation.steps, evaluation.values, color=INK if len(runs) == 1 else colour, **marks)
    if evaluated:
        axes.plot([], [], color=INK, label="evaluation", **marks)
    axes.set_xlabel("environment steps", color=INK)
    axes.set_ylabel("return per episode" if key == RETURN else key, color=INK)
    axes.set_title(title, color=INK, loc="left", fontweight="bold")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlim(left=0)
    axes.margins(y=0.08)
    axes.grid(color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=0)
    axes.spines[:].set_visible(False)
    axes.legend(frameon=False, labelcolor=INK, fontsize="small", loc="best")
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.with_name(f".{out.name}.{os.getpid()}.part")
    figure.savefig(unfinished, format="png")
    unfinished.replace(out)
