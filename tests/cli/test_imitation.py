"""Clones and students of other runs: they learn to do as these do, and are runs like any other."""

import json
import shutil

import jax
import numpy as np
import pytest
from PIL import Image

from rl4jax.algo.acting import act
from rl4jax.cli import load_policy, load_run
from rl4jax.cli.main import main
from rl4jax.core.run_dir import RunDir
from tests.cli.terminal import TINY, TINY_DQN, assert_same_bits, in_tensorboard, logged

SHORT = ("--num-envs", "2", "--num-steps", "200", "--hidden", "16", "--eval-episodes", "4", "--batch-size", "20", "--lr", "0.01")


def refused(capsys, *argv):
    assert main(list(map(str, argv))) == 2
    return " ".join(capsys.readouterr().err.split())


@pytest.fixture(scope="module")
def teachers(tmp_path_factory):
    """Runs by name, trained when they are first asked for."""
    folder = tmp_path_factory.mktemp("teachers")
    commands = {
        "ppo": ["ppo", "CartPole", *TINY],
        "other": ["ppo", "CartPole", *TINY, "--seed", "1"],
        "dqn": ["dqn", "CartPole", *TINY_DQN],
        "recurrent": ["ppo", "CartPole", *TINY, "--core", "lstm"],
        "masked": ["ppo", "GridWorld", *TINY],
        "continuous": ["ppo", "tests.cli.terminal:continuous_probe", *TINY, "--normalize-obs"],
        "host": ["ppo", "gym:CartPole-v1", *TINY],
    }

    def teacher(name):
        out = folder / name
        if not out.exists():
            assert main(["train", *commands[name], "--no-preset", "--total-steps", "32", "--out", str(out), "--quiet"]) == 0
        return out

    return teacher


def imitate(command, out, *runs, flags=()):
    assert main([command, *map(str, runs), *SHORT, "--out", str(out), "--quiet", *flags]) == 0
    return out


def examples_of(run):
    return load_run(run).examples


def agreement(run, teacher, obs):
    """The share of observations at which a clone and its teacher choose the same."""
    theirs, ours = load_policy(teacher), load_policy(run)
    return np.mean([int(theirs(o)[0]) == int(ours(o)[0]) for o in obs])


@pytest.fixture(scope="module")
def clone(teachers, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "clone"
    return imitate("bc", out, teachers("ppo"), flags=("--epochs", "10", "--tensorboard", "--json"))


def test_a_clone_does_as_its_teacher_did(clone, teachers):
    data = examples_of(clone)
    assert data.action.shape == (200,)
    policy = load_run(teachers("ppo")).need()[1].policy
    wanted = jax.vmap(lambda obs: act(policy, obs)[0])(data.obs)
    np.testing.assert_array_equal(data.action, wanted)  # greedy
    assert agreement(clone, teachers("ppo"), np.asarray(data.obs)[::10]) > 0.8
    _, values = logged(clone)
    assert values["train/loss", 10] < values["train/loss", 1]
    assert 0.8 < values["eval/accuracy", 10] <= 1


def test_the_headline_says_how_much_each_teacher_plays(clone, teachers, tmp_path):
    assert load_run(clone).about == f"10 epochs over 200 steps of {teachers('ppo')}"
    both = imitate("distill", tmp_path / "both", teachers("ppo"), teachers("other"), flags=("--epochs", "1"))
    assert load_run(both).about == f"1 epochs over 200 steps of each of {teachers('ppo')}, {teachers('other')}"


def test_a_clone_is_a_run_like_any_other(clone, tmp_path, capsys):
    result = json.loads((clone / "result.json").read_text())
    assert (result["epochs"], result["env"], result["out"]) == (10, "CartPole", str(clone))
    assert result.keys() >= {"eval_return_mean", "eval_return_std", "train_seconds", "compile_seconds", "epochs_per_second"}
    with Image.open(clone / "curve.png") as curve, Image.open(clone / "episode.gif") as episode:
        assert curve.width > 600
        assert episode.n_frames > 1
    counts, _ = logged(clone)
    assert set(counts.values()) == {1}
    assert in_tensorboard(clone) == counts
    assert {step for key, step in counts if key == "eval/loss"} == set(range(1, 11))
    assert main(["eval", str(clone), "--episodes", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["eval_return_mean"] == result["eval_return_mean"]
    assert main(["record", str(clone), "--out", str(tmp_path / "a.gif"), "--max-steps", "3"]) == 0
    assert main(["plot", str(clone), "--out", str(tmp_path / "a.png")]) == 0
    assert main(["plot", str(clone), "--metric", "train/entropy", "--out", str(tmp_path / "b.png")]) == 0
    assert main(["resume", str(clone), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["epochs"] == 10


def test_a_clone_needs_its_teacher_no_longer(clone, tmp_path):
    shutil.copytree(clone, tmp_path / "clone")
    config = json.loads((clone / "config.json").read_text())
    (tmp_path / "clone" / "config.json").write_text(json.dumps(config | {"teachers": ["gone"]}))
    obs = np.ones(4, np.float32)
    assert load_policy(tmp_path / "clone")(obs)[0] == load_policy(clone)(obs)[0]


def test_an_interrupted_clone_goes_on_bit_by_bit(clone, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(clone, copy)
    for step in RunDir(copy).steps()[1:]:
        RunDir(copy).step_path(step).unlink()
    assert RunDir(copy).steps() == [8]
    assert main(["resume", str(copy)]) == 0
    assert "Going on from epoch 8 of 10." in capsys.readouterr().err
    assert_same_bits(copy, clone)
    assert logged(copy) == logged(clone)
    assert "counts epochs" in refused(capsys, "resume", copy, "--total-steps", "99")


def test_the_stored_toml_repeats_the_clone(clone, tmp_path):
    assert main(["bc", "--config", str(clone / "config.toml"), "--out", str(tmp_path / "again"), "--quiet"]) == 0
    assert_same_bits(clone, tmp_path / "again")


def test_a_teacher_that_samples_shows_other_actions(clone, teachers, tmp_path):
    run = imitate("bc", tmp_path / "run", teachers("ppo"), flags=("--epochs", "1", "--sample"))
    data, policy = examples_of(run), load_run(teachers("ppo")).need()[1].policy
    share = np.mean(np.asarray(data.action) == np.asarray(jax.vmap(lambda obs: act(policy, obs)[0])(data.obs)))
    assert 0.3 < share < 0.9


def test_a_line_of_a_clone_spans_its_gradient_steps(teachers, tmp_path):
    run = imitate("bc", tmp_path / "run", teachers("ppo"), flags=("--epochs", "2", "--lr", "linear(0.01, 0)"))
    loaded = load_run(run)
    assert int(loaded.need()[1].num_updates) == loaded.cfg.lr.num_updates == 2 * 9  # 180 of 200 are learned from, 20 at a time
    assert logged(run)[1]["train/lr", 2] < 0.005


@pytest.mark.parametrize(
    ("command", "name", "measure"),
    [
        ("bc", "dqn", "eval/accuracy"),
        ("bc", "host", "eval/accuracy"),
        ("bc", "masked", "eval/accuracy"),
        ("distill", "dqn", "eval/agreement"),
        ("distill", "continuous", "eval/mse"),
    ],
)
def test_every_kind_of_run_can_teach(command, name, measure, teachers, tmp_path):
    run = imitate(command, tmp_path / "run", teachers(name), flags=("--epochs", "1"))
    assert logged(run)[0][measure, 1] == 1
    loaded = load_run(run)
    assert loaded.options.env == load_run(teachers(name)).options.env
    policy = load_policy(run)
    assert getattr(policy, "shown", policy).masked == (name == "masked")
    assert (
        len(
            policy(
                jax.tree.map(np.zeros_like, loaded.env.single_observation_space.sample()),
                mask=np.ones(4, bool) if name == "masked" else None,
            )
        )
        == 2
    )


def test_a_recurrent_teacher_is_cloned_but_not_distilled(teachers, tmp_path, capsys):
    imitate("bc", tmp_path / "run", teachers("recurrent"), flags=("--epochs", "1"))
    said = refused(capsys, "distill", teachers("recurrent"), *SHORT, "--out", tmp_path / "student")
    assert "recurrent" in said
    assert not (tmp_path / "student").exists()


def test_several_teachers_become_one_student(teachers, tmp_path):
    both = (teachers("ppo"), teachers("other"))
    run = imitate("distill", tmp_path / "run", *both, flags=("--epochs", "10", "--temperature", "2", "--hard-weight", "0.5"))
    targets = examples_of(run)
    assert targets.value.shape == (400,)
    policies = [load_run(path).need()[1].policy for path in both]
    for i in (0, 199, 200, 399):
        np.testing.assert_allclose(targets.pi.logits[i], policies[i // 200](targets.obs[i])[0].logits, rtol=1e-5, atol=1e-6)
    assert logged(run)[1]["eval/agreement", 10] > 0.6


def test_teachers_of_other_spaces_are_refused_before_anything_is_written(teachers, tmp_path, capsys):
    said = refused(capsys, "distill", teachers("ppo"), teachers("continuous"), *SHORT, "--out", tmp_path / "run")
    assert "All teachers must have the spaces of the first" in said
    assert str(teachers("continuous")) in said
    assert not (tmp_path / "run").exists()


def test_teachers_may_be_of_different_algorithms(teachers, tmp_path, capsys):
    run = imitate("distill", tmp_path / "run", teachers("ppo"), teachers("dqn"), flags=("--epochs", "2"))
    assert main(["plot", str(run), str(teachers("ppo")), "--out", str(tmp_path / "a.png")]) == 0, "evaluations of both"
    assert main(["plot", str(run), "--metric", "rollout/avg_return"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "has no metric 'rollout/avg_return'" in said
    assert "eval/return_mean" in said


def test_a_clone_gets_a_folder_of_its_own(teachers, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["bc", str(teachers("ppo")), *SHORT, "--epochs", "1"]) == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith("bc-CartPole-2")
    said = capsys.readouterr()
    assert f"BC on CartPole: 1 epochs over 200 steps of {teachers('ppo')}" in said.err
    assert "1 epochs in" in said.out


def test_gradients_that_are_not_finite_stop_a_clone(teachers, tmp_path, capsys):
    argv = ["bc", str(teachers("continuous")), *SHORT, "--lr", "1e38", "--max-grad-norm", "0", "--quiet"]
    assert main([*argv, "--out", str(tmp_path / "run")]) == 1
    assert "not finite. Try a smaller --lr" in " ".join(capsys.readouterr().err.split())
    assert RunDir(tmp_path / "run").steps() == [0]
    assert main([*argv, "--out", str(tmp_path / "other"), "--on-nonfinite", "skip", "--epochs", "2"]) == 0
    assert json.loads((tmp_path / "other" / "result.json").read_text())["skipped_updates"] > 0
