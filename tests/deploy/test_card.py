"""The model card is true: its code runs, and it says what the policy needs."""

import json
import os
import re

import jax
import numpy as np
import onnx
import pytest

from rl4jax import deploy
from rl4jax.deploy.card import play_command
from rl4jax.deploy.env_names import GYMNASIUM, to_play
from tests.deploy.policies import build
from tests.fresh_process import run


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A bundle of each kind, made when it is first asked for."""
    made = {}

    def of(kind):
        if kind not in made:
            model, env, masked = build(kind)
            about = {"algorithm": "ppo", "env": "Somewhere", "step": 12_345, "seed": 3, "value": "expected discounted return"}
            result = {"mean": -1139.2, "std": 213.4, "episodes": 10}
            folder = tmp_path_factory.mktemp("cards") / "my_policy"
            made[kind] = env, deploy.export(model, env, folder, masked=masked, about=about | {"evaluation": result})
        return made[kind]

    return of


def code_of(folder):
    """With rl4jax, and with onnxruntime alone."""
    return re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("kind", ["choice", "masked choice", "gru"])
def test_the_code_of_the_card_runs(kind, exported, monkeypatch):
    env, folder = exported(kind)
    monkeypatch.chdir(folder.parent)
    _, obs = env.reset(jax.random.key(0))
    known = {"obs": np.asarray(obs)[0], "mask": np.ones(env.single_action_space.n, bool)}
    exec(code_of(folder)[0], known)
    assert known["action"] in env.single_action_space
    assert ("carry" in known) == (kind == "gru")


@pytest.mark.parametrize("kind", ["choice", "masked choice", "gru", "parts"])
def test_the_program_runs_without_anything_of_ours(kind, exported):
    _, folder = exported(kind)
    ours = "import sys\nfor name in ('rl4jax', 'jax', 'gymnasium', 'onnx'):\n    sys.modules[name] = None\n"
    done = run(f"{ours}import os\nos.chdir({os.fspath(folder.parent)!r})\n{code_of(folder)[1]}\nprint([x.shape for x in outputs])")
    config = json.loads((folder / "config.json").read_text())
    assert done.stdout.strip() == str([(1, *port["shape"]) for port in config["outputs"]]), done.stderr


def test_what_is_played_needs_no_jax_where_gymnasium_has_the_same():
    assert {to_play(ours) for ours in GYMNASIUM.values()} == set(GYMNASIUM) == {to_play(theirs) for theirs in GYMNASIUM}
    assert play_command("my bundle", "CartPole") == "python -m rl4jax.deploy.run 'my bundle' --env gym:CartPole-v1"
    assert play_command("b", "gym:x; rm -rf ~") == "python -m rl4jax.deploy.run b --env 'gym:x; rm -rf ~'"
    assert play_command("b", "Catch,rows=16") == "python -m rl4jax.deploy.run b --env Catch,rows=16"


@pytest.mark.parametrize("env", ["my_game:Maze", "Somewhere", None])
def test_no_command_is_shown_that_cannot_play(env):
    assert play_command("bundle", env) is None


def test_the_card_says_how_good_and_from_when(exported):
    card = (exported("choice")[1] / "README.md").read_text()
    assert "# PPO on Somewhere" in card
    assert "Mean return: **-1139 +/- 213** over 10 greedy episodes of the exported weights: those after 12,345 steps, seed 3." in card
    assert "actions Discrete(2)" in card
    assert "- `value`: expected discounted return." in card


def test_old_runtimes_read_the_program(exported):
    """onnxruntime 1.15 refuses newer ones; so do game engines."""
    for kind in ("choice", "masked choice", "gru"):
        model = onnx.load(exported(kind)[1] / "policy.onnx")
        assert ([(x.domain, x.version) for x in model.opset_import], model.ir_version) == ([("", 17)], 8)
        assert json.loads((exported(kind)[1] / "config.json").read_text())["value"] == "expected discounted return"
