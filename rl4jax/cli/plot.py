"""Learning curves as a picture."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rl4jax.core.errors import missing_extra

from .curves import EVALUATIONS, RETURN, band_of, find_curve, read_curves

INK, FAINT = "#33373d", "#d9dce1"
COLOURS = ("#2f6fde", "#e2662d", "#1f9d6b", "#a04fc4", "#c9a100", "#d6336c", "#12a3b8", "#7a6a58")  # told apart also when printed grey
AXES = {"steps": "environment steps", "epochs": "epochs"}  # by what a run counts
DOTS = {RETURN: "evaluation", "train/loss": "held out"}  # what those of EVALUATIONS are
MARKS: dict[str, Any] = {"marker": "o", "markersize": 6, "markeredgecolor": "white", "linestyle": "none", "zorder": 5}


def plot_runs(
    runs: Sequence[Path], out: Path, *, names: Sequence[str] = ("training",), key: str = RETURN, title: str = "", unit: str = "steps"
) -> None:
    """Draw one metric of several runs into one PNG: points faint, running mean solid, evaluations as dots."""
    figure, axes = new_figure(title, key, unit)
    evaluated = False
    for i, (run, name) in enumerate(zip(runs, names, strict=True)):
        curve, colour = find_curve(run, key), COLOURS[i % len(COLOURS)]
        axes.plot(curve.steps, curve.values, color=colour, alpha=0.25, linewidth=1, solid_joinstyle="round")
        draw_line(axes, curve.smoothed(), colour, f"{name} (running mean)" if len(runs) == 1 and curve.is_long else name)
        evaluation = read_curves(run).get(EVALUATIONS.get(key, ""))
        if evaluation is not None:
            evaluated = True
            axes.plot(evaluation.steps, evaluation.values, color=INK if len(runs) == 1 else colour, **MARKS)
    if evaluated:
        axes.plot([], [], color=INK, label=DOTS[key], **MARKS)
    write(figure, axes, out)


def plot_means(groups: Mapping[str, Sequence[Path]], out: Path, *, key: str = RETURN, title: str = "", unit: str = "steps") -> None:
    """Draw each group of runs as its mean, in a band from the worst to the best of them, all smoothed."""
    figure, axes = new_figure(title, key, unit)
    for i, (name, runs) in enumerate(groups.items()):
        band, colour = band_of([find_curve(run, key).smoothed() for run in runs]), COLOURS[i % len(COLOURS)]
        axes.fill_between(band.mean.steps, band.low, band.high, color=colour, alpha=0.18, linewidth=0)
        draw_line(axes, band.mean, colour, f"{name} ({len(runs)} runs)" if len(runs) > 1 else name)
    write(figure, axes, out)


def new_figure(title: str, key: str, unit: str) -> tuple[Any, Any]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter, MaxNLocator
    except ImportError as error:
        raise missing_extra("A picture of the learning curve", extra="plot") from error

    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_xlabel(AXES[unit], color=INK)
    axes.set_ylabel("return per episode" if key == RETURN else key, color=INK)
    axes.set_title(title, color=INK, loc="left", fontweight="bold")
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    return figure, axes


def draw_line(axes: Any, curve: Any, colour: str, label: str) -> None:
    dots = None if curve.is_long else "."  # a line through one point is none
    axes.plot(curve.steps, curve.values, color=colour, linewidth=2, label=label, solid_capstyle="round", marker=dots)


def write(figure: Any, axes: Any, out: Path) -> None:
    axes.margins(x=0.02, y=0.08)
    axes.set_xlim(left=0)
    axes.grid(color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=0)
    axes.spines[:].set_visible(False)
    axes.legend(frameon=False, labelcolor=INK, fontsize="small", loc="best")
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.with_name(f".{out.name}.{os.getpid()}.part")
    figure.savefig(unfinished, format="png")
    unfinished.replace(out)
