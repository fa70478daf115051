"""`rl4jax doctor`: the gradients of a run, by its own loss."""

import json

import equinox as eqx
import jax.numpy as jnp
import pytest

from rl4jax.cli import networks
from rl4jax.cli.commands.doctor import verdict
from rl4jax.cli.main import main
from tests.cli.terminal import TINY, TINY_DQN, TINY_IMPALA

TRAINED = {
    "ppo": ["train", "ppo", "CartPole", *TINY],
    "recurrent": ["train", "ppo", "Pendulum", *TINY, "--core", "lstm", "--normalize-obs"],
    "dqn": ["train", "dqn", "GridWorld", *TINY_DQN, "--n-step", "3", "--double"],
    "impala": ["train", "impala", "CartPole", *TINY_IMPALA],
    "dqn on the host": ["train", "dqn", "gym:CartPole-v1", *TINY_DQN],
    "ppo on the host": ["train", "ppo", "gym:CartPole-v1", *TINY],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs by name, trained when they are first asked for."""
    folder = tmp_path_factory.mktemp("runs")

    def get(name):
        out = folder / name.replace(" ", "-")
        if not out.exists():
            if name in ("bc", "distill"):
                short = ["--num-envs", "2", "--num-steps", "40", "--epochs", "1", "--hidden", "8", "--eval-episodes", "2"]
                command = [name, str(get("ppo")), *short]
            else:
                command = [*TRAINED[name], "--no-preset", "--total-steps", "32"]
            assert main([*command, "--out", str(out), "--quiet"]) == 0
        return out

    return get


@pytest.mark.parametrize("name", [*TRAINED, "bc", "distill"])
def test_runs_of_every_algorithm_are_healthy(name, run, capsys):
    folder = run(name)
    before = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    capsys.readouterr()
    assert main(["doctor", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["healthy"], found["faults"]) == (True, [])
    assert found["gradients"]
    assert bool(found["spared"]) == (name == "bc"), "a clone has no values to learn from"
    assert before == {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}, "nothing is written"


def test_the_table_has_a_row_for_each_parameter_and_a_verdict(run, capsys):
    assert main(["doctor", str(run("ppo")), "--which", "best"]) == 0
    out = capsys.readouterr().out
    assert "policy.linear.weight" in out
    assert "trunks.0 is the network of the actor, trunks.1 that of the critic." in out
    assert "PPO on CartPole, step 32: all 8 parameters have a gradient." in out


def test_parameters_whose_gradient_is_zero_are_counted(run, capsys):
    """A network that died of its learning rate is no fault of the program, but it is said."""
    dead = [*TRAINED["ppo"], "--no-preset", "--activation", "relu", "--lr", "1000", "--total-steps", "64"]
    out = run("ppo").parent / "dead"
    assert main([*dead, "--out", str(out), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["doctor", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    zero = [row["name"] for row in found["gradients"] if row["status"] == "zero"]
    assert (found["healthy"], found["zero"]) == (True, zero)
    assert zero
    assert main(["doctor", str(out)]) == 0
    assert f": {8 - len(zero)} of 8 parameters have a gradient; {len(zero)} are zero for these observations: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("faults", "zero", "healthy", "said"),
    [
        ([], [], True, "all 8 parameters have a gradient."),
        ([], ["a"], True, "7 of 8 parameters have a gradient; 1 is zero for these observations: a."),
        (["b"], ["a", "c"], False, "1 of 8 parameters have none that is of use; 2 are zero for these observations: a, c."),
        (["b"], [], False, "1 of 8 parameters have none that is of use."),
        ([], [], False, "the loss is not finite."),
    ],
)
def test_the_verdict_counts(faults, zero, healthy, said):
    assert verdict(8, faults, zero, healthy) == said


def test_a_network_that_does_not_learn_is_found(run, capsys, monkeypatch):
    class Forgetful(eqx.Module):
        """An actor-critic with a layer that nobody uses, and an actor that is rounded."""

        inner: eqx.Module
        unused: jnp.ndarray

        def __call__(self, obs):
            pi, value = self.inner(obs)
            return type(pi)(jnp.round(pi.logits)), value

    folder = run("ppo")
    build = networks.ActorCriticOptions.build
    monkeypatch.setattr(networks.ActorCriticOptions, "build", lambda *args: Forgetful(build(*args), jnp.ones(3)))
    broken = folder.parent / "broken"
    assert main([*TRAINED["ppo"], "--no-preset", "--total-steps", "32", "--out", str(broken), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["doctor", str(broken)]) == 1
    out = capsys.readouterr().out
    assert "blocked" in out
    assert "disconnected" in out
    assert "test_doctor.py" in out
    assert "5 of 9 parameters have none that is of use." in out


def test_what_is_no_run_is_refused(tmp_path, capsys):
    assert main(["doctor", str(tmp_path)]) == 2
    assert "not the folder of a run" in " ".join(capsys.readouterr().err.split())
