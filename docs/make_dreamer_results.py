"""Draw docs/images/dreamer.png and print the table of docs/world-models/results.md, from docs/world-models/curves.json.

What the slow tests of Dreamer have kept in bench-results/dreamer replaces the runs of the same name and seed there:
`pytest -m slow tests/learning/test_dreamer_learning.py`, some hours on two cores.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

DOCS = Path(__file__).parent
CURVES, KEPT = DOCS / "world-models" / "curves.json", DOCS.parent / "bench-results" / "dreamer"
CATCH = "Catch,rows=16,columns=16"
TASKS = {  # the bar, by the name of the runs
    CATCH: ("Catch, Barlow twins", 0.9),
    f"{CATCH} decoder": ("Catch, blurred decoder", 0.9),
    f"{CATCH} InfoNCE": ("Catch, InfoNCE", 0.9),
    f"{CATCH} prototypes": ("Catch, prototypes", 0.9),
    "Memory": ("Memory", 0.95 * 17),
    "Pendulum": ("Pendulum", -250),
    "CartPole": ("CartPole", 400),
}


def all_runs() -> dict[str, dict]:
    """By name and seed, with those that are new."""
    runs = json.loads(CURVES.read_text()) if CURVES.exists() else {}
    runs |= {path.stem: json.loads(path.read_text()) for path in KEPT.glob("*.json")}
    CURVES.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(runs[name])}" for name in sorted(runs)) + "\n}\n")
    return runs


RUNS = all_runs()


def runs_of(name: str) -> list[dict]:
    """Those of all seeds, in their order."""
    return [run for key, run in sorted(RUNS.items()) if key.rsplit("-", 1)[0] == name]


def needed(run: dict, bar: float) -> str:
    """Steps until the bar is reached; more than all if it never is."""
    reached = (f"{step:,}" for step, mean in zip(run["steps"], run["means"], strict=True) if mean >= bar)
    return next(reached, f"> {run['steps'][-1]:,}")


def row(name: str) -> str:
    title, bar = TASKS[name]
    runs, ppo = runs_of(name), runs_of(f"PPO {name.split(' ')[0]}")
    last = ", ".join(f"{run['means'][-1]:.4g}" for run in runs)
    steps = ", ".join(needed(run, bar) for run in runs)
    by_ppo = ", ".join(needed(run, bar) for run in ppo) or "-"
    minutes = max(run["minutes"] for run in runs)
    return f"| {title} | {bar:.4g} | {last} | {runs[0]['steps'][-1]:,} | {steps} | {by_ppo} | {minutes:.0f} |"


def draw(path: Path) -> None:
    figure, axes = plt.subplots(2, 4, figsize=(13, 6), layout="constrained")
    tasks = {name: task for name, task in TASKS.items() if runs_of(name)}
    for ax, (name, (title, bar)) in zip(axes.flat, tasks.items(), strict=False):
        for run in runs_of(name):
            ax.plot(np.array(run["steps"]) / 1000, run["means"], color="#3b6fb5", linewidth=1.5, alpha=0.8)
        ax.axhline(bar, color="#d9822b", linewidth=1, linestyle="--")
        ax.set_title(title)
        ax.set_xlabel("thousand environment steps")
    for ax in axes[:, 0]:
        ax.set_ylabel("greedy return")
    for ax in axes.flat[len(tasks) :]:
        ax.axis("off")
    axes.flat[-1].text(
        0, 0.6, "blue: greedy return over 100 episodes,\none line for each seed\n\norange: the bar of the tests", fontsize=10
    )
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    print("| task | bar | last weights | within | steps until reached | PPO's | most minutes |\n|---|---|---|---|---|---|---|")
    print("\n".join(row(name) for name in TASKS if runs_of(name)))
    draw(DOCS / "images" / "dreamer.png")
