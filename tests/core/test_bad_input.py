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
    "rl.make(rl.envs.CartPole)": "the name must be a string, such as 'CartPole'. A class makes its environments itself",
    "rl.make('CartPole', gravity='x')": "make('CartPole'): gravity = 'x' must be a number or an array.",
    "rl.EpisodeStats(rl.envs.CartPole)": "TypeError: env is the class CartPole; give an instance: CartPole().",
    "rl.EpisodeStats(rl.VecEnv(rl.envs.CartPole(), 2))": "Wrap the environment first, and give that to VecEnv.",
    "rl.TimeLimit(rl.envs.CartPole(), 2.5)": "ConfigError: TimeLimit.max_steps = 2.5 must be a positive integer.",
    "rl.GymVecEnv(rl.envs.CartPole(), 2)": "one of rl4jax's own environments, which run in-graph. Use rl.VecEnv(env, num_envs=4).",
    "rl.GymVecEnv([None, None])": "env is a list of 2; give one function and num_envs=2.",
    "rl.VecEnv(rl.envs.CartPole(), 2).reset(0)": "ShapeError: VecEnv.reset: key is int32[]; it must be one JAX key. Use jax.random.key(0).",
    "rl.VecEnv(rl.envs.CartPole(), 2).reset(None)": "VecEnv.reset: key is None; it must be one JAX key.",
    "rl.VecEnv(rl.envs.CartPole(), 2).reset(jax.random.split(jax.random.key(0), 3))": "VecEnv.reset: key is key<fry>[3]; it must be one",
    "rl.GymVecEnv('CartPole-v1', 2).reset(0)": "GymVecEnv.reset: key is int",
    "rl.random_act(rl.envs.CartPole())": "random_act: action_space is a CartPole; give the environment's action_space.",
    "rl.write_gif('x.mp4', [np.zeros((4, 4, 3), np.uint8)])": "ConfigError: write_gif: path = 'x.mp4' must be a path ending in .gif.",
    "rl.PrintLogger('a')": "ConfigError: PrintLogger.every = 'a' must be zero",
    "rl.record(rl.GymVecEnv('CartPole-v1', 1), None, key=jax.random.key(0))": "Make one environment of the same kind: gymnasium.make(id,",
    "rl.random_action(gymnasium.spaces.Discrete(3), jax.random.key(0), np.zeros(3, bool))": "allows nothing; leave each head of Discrete(3)",
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
