"""What the pictures of learning curves say."""

import json

import pytest

from rl4jax.cli import plot
from rl4jax.cli.main import main
from rl4jax.core.log.json_logger import JsonLogger


@pytest.fixture
def legend(monkeypatch):
    """The labels of the pictures that are drawn."""
    labels, write = [], plot.write

    def note(figure, axes, out):
        labels.extend(axes.get_legend_handles_labels()[1])
        write(figure, axes, out)

    monkeypatch.setattr(plot, "write", note)
    return labels


def run_of(folder, name, config, num_points=3, keys=("rollout/avg_return", "eval/return_mean")):
    (folder / name).mkdir()
    (folder / name / "config.json").write_text(json.dumps(config))
    with JsonLogger(folder / name / "log.jsonl") as log:
        for step in range(num_points):
            log.log_metrics(dict.fromkeys(keys, step % 7), step)
    return str(folder / name)


@pytest.mark.parametrize(("num_points", "label"), [(49, "training"), (50, "training (running mean)")])
def test_only_a_curve_of_many_points_is_a_running_mean(num_points, label, legend, tmp_path):
    run = run_of(tmp_path, "run", {"algorithm": "ppo", "env": "Catch"}, num_points)
    assert main(["plot", run]) == 0
    assert legend == [label, "evaluation"]


def test_the_dots_of_a_clone_are_what_was_held_out(legend, tmp_path):
    run = run_of(tmp_path, "clone", {"algorithm": "bc", "env": "Catch"}, keys=("train/loss", "eval/loss"))
    assert main(["plot", run]) == 0
    assert legend == ["training", "held out"]


def test_runs_of_different_environments_are_told_apart(legend, tmp_path):
    runs = [
        run_of(tmp_path, name, {"algorithm": "ppo", "env": env}) for name, env in (("a", "Catch"), ("b", "Memory"), ("my-Catch", "Catch"))
    ]
    assert main(["plot", *runs, "--out", str(tmp_path / "all.png")]) == 0
    assert legend == ["a (Catch)", "b (Memory)", "my-Catch", "evaluation"]
    legend.clear()
    assert main(["plot", runs[0], runs[2], "--out", str(tmp_path / "two.png")]) == 0
    assert legend == ["a", "my-Catch", "evaluation"]
