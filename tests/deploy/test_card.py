"""The model card is true: its code runs, and it says what the policy needs."""

import json
import os
import re
import shutil
import subprocess

import onnx
import pytest
from markdown_it import MarkdownIt

from rl4jax import deploy
from rl4jax.deploy.card import play_command, write_card
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


@pytest.mark.parametrize("kind", ["choice", "masked choice", "gru", "parts"])
def test_the_code_of_the_card_runs(kind, exported, monkeypatch):
    env, folder = exported(kind)
    monkeypatch.chdir(folder.parent)
    known = {}
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


ODD = ["-dash", "back`tick", "```\n# evil", "new\nline", "a b'c\"d", "emoji😀", "$HOME"]


@pytest.mark.parametrize("name", ODD)
def test_whatever_the_folder_is_called(name, exported, tmp_path):
    """The card's code and its command, as Markdown shows them, mean that folder."""
    folder = tmp_path / name
    shutil.copytree(exported("choice")[1], folder)
    config = json.loads((folder / "config.json").read_text()) | {"env": "CartPole"}
    card = write_card(config, name, has_replay=False)
    blocks = [token.content for token in MarkdownIt().parse(card) if token.type == "fence"]
    assert len(blocks) == 4, "no block ends early"
    command = next(block for block in blocks if "deploy.run" in block)
    shown = subprocess.run(["sh", "-c", f"python() {{ printf '%s\\0' \"$@\"; }}; {command}"], capture_output=True, text=True).stdout
    assert (tmp_path / shown.split("\0")[2]).resolve() == folder
    done = run(f"import os\nos.chdir({os.fspath(tmp_path)!r})\n{blocks[3]}\nprint(len(outputs))")
    assert done.returncode == 0, done.stderr


def test_whatever_the_parts_are_called(exported):
    config = json.loads((exported("choice")[1] / "config.json").read_text())
    name = "x|y`\nprint('ran')"
    config["outputs"].append({"name": name, "shape": [], "dtype": "float32"})
    card = write_card(config, "bundle", has_replay=False)
    assert "\nprint(" not in card
    assert all(line.count("|") == 4 for line in card.splitlines() if line.startswith("| `"))


def test_what_is_played_needs_no_jax_where_gymnasium_has_the_same():
    assert {to_play(ours) for ours in GYMNASIUM.values()} == set(GYMNASIUM) == {to_play(theirs) for theirs in GYMNASIUM}
    assert play_command("my bundle", "CartPole") == "python -m rl4jax.deploy.run 'my bundle' --env gym:CartPole-v1"
    assert play_command("b", "gym:x; rm -rf ~") == "python -m rl4jax.deploy.run b --env 'gym:x; rm -rf ~'"
    assert play_command("b", "gym:rl4jax/Acrobot-v0") == play_command("b", "Acrobot")
    assert play_command("-b", "CartPole, max_steps = 200") == "python -m rl4jax.deploy.run ./-b --env gym:CartPole-v0"
    assert play_command("b", "Catch,rows=16") == "python -m rl4jax.deploy.run b --env Catch,rows=16"


@pytest.mark.parametrize("env", ["my_game:Maze", "Somewhere", None])
def test_no_command_is_shown_that_cannot_play(env):
    assert play_command("bundle", env) is None


def test_the_card_says_how_good_and_from_when(exported):
    card = (exported("choice")[1] / "README.md").read_text()
    assert "# PPO on Somewhere" in card
    assert "Mean return: **-1139 +/- 213** over 10 greedy episodes of the exported weights: those after 12,345 steps, seed 3." in card
    assert "actions `Discrete(2)`" in card
    assert "- `value`: expected discounted return." in card


def test_old_runtimes_read_the_program(exported):
    """onnxruntime 1.15 refuses newer ones; so do game engines."""
    for kind in ("choice", "masked choice", "gru"):
        model = onnx.load(exported(kind)[1] / "policy.onnx")
        assert ([(x.domain, x.version) for x in model.opset_import], model.ir_version) == ([("", 17)], 8)
        assert json.loads((exported(kind)[1] / "config.json").read_text())["value"] == "expected discounted return"
