"""Writing a bundle destroys nothing that belongs to somebody else."""

import json

import pytest

import rl4jax as rl
from rl4jax import deploy
from rl4jax.core.errors import CheckpointError, ConfigError
from rl4jax.deploy import exporting
from rl4jax.deploy.own_folder import check_folder, holds_bundle
from tests.deploy.policies import actor_critic

ENV = rl.VecEnv(rl.envs.CartPole(), 2)
OURS = json.dumps({"format": "rl4jax-policy"})
NOT_OURS = {
    "a run": {"config.json": '{"format": "rl4jax-run"}', "checkpoints/latest": "weights"},
    "a run that lost its config": {"checkpoints/latest": "weights"},
    "a model of somebody": {"config.json": "[]"},
    "a config that is cut off": {"config.json": OURS[:-3]},
    "a page of a bundle": {"config.json": OURS, "page.json": "{}", "README.md": "mine"},
    "a project": {"README.md": "mine", "code.py": "print()"},
}


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fill(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize("what", NOT_OURS)
def test_a_folder_of_something_else_is_refused_and_stays(what, tmp_path):
    fill(tmp_path, NOT_OURS[what])
    before = contents(tmp_path)
    with pytest.raises(ConfigError, match=r"holds .*, not those of a bundle: .* Give a new folder"):
        deploy.export(lambda obs: pytest.fail("the work began"), ENV, tmp_path)
    assert contents(tmp_path) == before


def test_a_folder_is_no_file(tmp_path):
    fill(tmp_path, {"config.json": OURS, "README.md/notes.txt": "mine"})
    with pytest.raises(ConfigError, match=r"README.md is a folder, so a bundle cannot be written there"):
        deploy.export(lambda obs: pytest.fail("the work began"), ENV, tmp_path)


def test_a_bundle_stays_whole_if_the_next_one_cannot_be_written(tmp_path, monkeypatch):
    deploy.export(actor_critic(ENV), ENV, tmp_path, replay=b"GIF89a")
    before = contents(tmp_path)
    larger = {name: data + b"more" for name, data in before.items()}

    def full(path, data, *, write=exporting.write_atomic):
        if path.name == "config.json":
            raise CheckpointError(f"{path} cannot be written: the disk is full.")
        write(path, data)

    monkeypatch.setattr(exporting, "write_atomic", full)
    with pytest.raises(CheckpointError, match="the disk is full"):
        exporting.replace(larger, tmp_path)
    assert contents(tmp_path) == before
    monkeypatch.undo()
    del larger["replay.gif"]
    exporting.replace(larger, tmp_path)
    assert contents(tmp_path) == larger, "nothing is left of the older one"


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="file is not a folder, so a bundle cannot be written there"):
        deploy.export(actor_critic(ENV), ENV, tmp_path / "file")


@pytest.mark.parametrize(
    "files", [{}, {"notes.txt": "mine"}, {"config.json": OURS, "README.md": "", "replay.gif": "", "notes.txt": "mine"}]
)
def test_a_bundle_takes_new_folders_and_replaces_old_bundles(files, tmp_path):
    fill(tmp_path, files)
    check_folder(tmp_path, ["README.md", "config.json"], holds_bundle, "a bundle")
    check_folder(tmp_path / "new", ["README.md", "config.json"], holds_bundle, "a bundle")
    assert contents(tmp_path) == {name: text.encode() for name, text in files.items()}
