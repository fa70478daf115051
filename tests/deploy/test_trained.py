"""What every algorithm has trained does the same without JAX: run, export, and compare, as a user would."""

import pytest

import rl4jax as rl
from rl4jax.cli import load_run
from rl4jax.cli.main import main
from rl4jax.cli.policy import has_masks
from rl4jax.deploy.env_names import in_ours
from rl4jax.envs.registry import parse
from tests.deploy.agreement import assert_agree, assert_play_alike

FEW = ("--eval-episodes", "4", "--quiet")
COMMANDS = {  # long enough that weights are no longer those of the start
    "ppo": ["train", "ppo", "CartPole", "--total-steps", "20000"],
    "ppo, of Gymnasium": ["train", "ppo", "gym:CartPole-v1", "--total-steps", "20000"],
    "ppo, normalised numbers": ["train", "ppo", "Pendulum", "--total-steps", "20480"],
    "ppo, masks": ["train", "ppo", "GridWorld", "--total-steps", "20000"],
    "ppo, several choices": ["train", "ppo", "MultiDiscreteNav", "--total-steps", "20000"],
    "ppo, memory": ["train", "ppo", "Memory", "--total-steps", "20000"],
    "ppo, pixels": ["train", "ppo", "Catch,rows=16,columns=16", "--total-steps", "20000"],
    "dqn": ["train", "dqn", "CartPole", "--total-steps", "4000"],
    "impala": ["train", "impala", "CartPole", "--total-steps", "20000"],
    "dreamer": ["train", "dreamer", "CartPole", "--total-steps", "1500"],
    "dreamer, numbers": ["train", "dreamer", "Pendulum", "--total-steps", "1500"],
    "dreamer, pixels": ["train", "dreamer", "Catch,rows=16,columns=16", "--total-steps", "1500"],
    "bc": ["bc", "ppo"],
    "distill": ["distill", "ppo", "dqn"],
}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs by name, trained when they are first asked for."""
    folder = tmp_path_factory.mktemp("runs")

    def run(name):
        out = folder / name
        if not out.exists():
            verb, *rest = COMMANDS[name]
            words = rest if verb == "train" else [str(run(teacher)) for teacher in rest]
            assert main([verb, *words, *FEW, "--out", str(out)]) == 0
        return out

    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_trained_does_the_same_anywhere(name, trained, tmp_path):
    assert main(["export", str(trained(name)), "--out", str(tmp_path), "--episodes", "4"]) == 0
    run = load_run(trained(name))
    _, state = run.need("latest")
    env_name, fields = parse(in_ours(run.options.env))  # Gymnasium's CartPole too, which moves as ours does
    env = rl.VecEnv(rl.make(env_name, **fields), num_envs=100)
    assert_agree(state.policy, env, has_masks(run.env), tmp_path)
    assert_play_alike(state.policy, env, has_masks(run.env), tmp_path)
