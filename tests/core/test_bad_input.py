"""Wrong types, as a user without run-time type checks gives them: in a fresh process, where no contract is checked."""

import json

import pytest

from tests.fresh_process import run

CASES = {
    "rl.VecEnv(rl.envs.CartPole(), 2.5)": "ConfigError: VecEnv.num_envs = 2.5 must be a positive integer. Use VecEnv(env, num_envs=4).",
    "rl.VecEnv(rl.envs.CartPole(), None)": "ConfigError: VecEnv.num_envs = None must be a positive integer.",
    "rl.VecEnv(rl.envs.CartPole(), True)": "ConfigError: VecEnv.num_envs = True must be a positive integer.",
    "rl.VecEnv(gymnasium.make('CartPole-v1'), 2)": "TypeError: env is a TimeLimit; it must be an rl4jax AbstractEnv. For a Gymnasium environment use",
    "rl.VecEnv('CartPole', 2)": "TypeError: env is a str; it must be an rl4jax AbstractEnv. For a built-in one use rl.make('CartPole').",
    "rl.VecEnv(rl.envs.CartPole, 2)": "TypeError: env is the class CartPole; give an instance: CartPole().",
    "rl.GymVecEnv(gymnasium.make('CartPole-v1'), 2)": "is one environment; give the function that makes it",
    "rl.GymVecEnv(3, 2)": "env = 3 must be a Gymnasium id, a function that makes a gymnasium.Env, or a VectorEnv",
    "rl.GymVecEnv('CartPole-v1', 0)": "ConfigError: GymVecEnv.num_envs = 0 must be a positive integer.",
    "rl.GymVecEnv('CartPol-v1', 2)": "NameNotFound: Environment `CartPol` doesn't exist. Did you mean: `CartPole`?",
    "rl.make('cartpole')": "EnvError: make('cartpole'): there is no such built-in environment. Did you mean 'CartPole'?",
    "rl.make('CartPole', gravty=1.0)": "ConfigError: make('CartPole'): CartPole has no field 'gravty'. Did you mean 'gravity'?",
    "rl.check_env(3)": "TypeError: env is a int; it must be an rl4jax AbstractEnv.",
    "rl.record(3, None, key=jax.random.key(0))": "EnvError: record: env is a int; give an AbstractEnv, a VecEnv or a gymnasium.Env.",
    "rl.write_gif('/dev/null/x.gif', [np.zeros((4, 4))], 4)": "ShapeError: write_gif: frames[0] is float64 (4, 4); all must be uint8 [H, W, 3]",
}


@pytest.fixture(scope="module")
def answers():
    program = (
        "import json, sys, gymnasium, jax, numpy as np, rl4jax as rl\nout = {}\n"
        "for case in json.loads(sys.argv[1]):\n"
        "    try: out[case] = f'no error: {eval(case)}'\n"
        "    except Exception as error: out[case] = f'{type(error).__name__}: {error}'\n"
        "print(json.dumps(out))"
    )
    out = run(program, json.dumps(list(CASES)))
    return json.loads(out.stdout)


@pytest.mark.parametrize("case", CASES)
def test_the_answer_names_argument_value_rule_and_fix(case, answers):
    assert CASES[case] in answers[case]
