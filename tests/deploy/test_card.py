"""The model card is true: its code runs, and it says what the policy needs."""

import json
import re

import jax
import numpy as np
import onnx
import pytest

from rl4jax import deploy
from tests.deploy.policies import build


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


@pytest.mark.parametrize("kind", ["choice", "masked choice", "gru"])
def test_the_code_of_the_card_runs(kind, exported, monkeypatch):
    env, folder = exported(kind)
    monkeypatch.chdir(folder.parent)
    code = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    assert code is not None
    _, obs = env.reset(jax.random.key(0))
    known = {"obs": np.asarray(obs)[0], "mask": np.ones(env.single_action_space.n, bool)}
    exec(code[1], known)
    assert known["action"] in env.single_action_space
    assert ("carry" in known) == (kind == "gru")


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
