"""The environments of the page, in JavaScript, against ours: each step alone, so that rounding does not add up."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax.deploy import web
from tests.deploy.browser.node import modules, run_script

NUM_STEPS = 1000
CLOSE = 1e-5  # times the size of what is compared: JavaScript has 64 bits, we have 32
HERE = Path(__file__).parent
CASES = {  # and how often an episode ends by itself in so many steps, at least
    "CartPole": 1,
    "CartPole,gravity=1.6,half_length=1.0,max_steps=50": 1,
    "Pendulum": 0,
    "Pendulum,gravity=3.7,length=1.5": 0,
    "MountainCar": 1,
    "MountainCar,goal_position=0.2,max_steps=30": 1,
    "Acrobot": 1,
    "Acrobot,length_1=1.5,mass_2=0.5": 1,
    "GridWorld": 1,
    "GridWorld,size=3,step_reward=-0.5": 1,
    "Catch": 1,
    "Catch,rows=16,columns=16": 1,
}
WIDEST = {  # states from all over, not only where a random policy comes to
    "CartPole": {"x": 2.5, "x_dot": 3, "theta": 0.22, "theta_dot": 3},
    "Pendulum": {"theta": 12, "theta_dot": 8},
    "MountainCar": {"position": 0.6, "velocity": 0.07},
    "Acrobot": {"theta_1": np.pi, "theta_2": np.pi, "theta_1_dot": 6, "theta_2_dot": 9},
}


def make(typed):
    name, fields = web.parse_env(typed)
    return name, fields, rl.envs.make(name, **fields)


def random_states(name, env, key):
    """Arrays of the fields of a state, and of actions."""
    key, action_key, time_key = jax.random.split(key, 3)
    limit = int(getattr(env, "max_steps", 0)) or env.rows - 1
    t = jax.random.randint(time_key, (NUM_STEPS,), 0, limit, jnp.int32)
    if name == "GridWorld":
        cell = jax.random.randint(key, (NUM_STEPS,), 0, env.size**2 - 1, jnp.int32)
        state = {"row": cell // env.size, "column": cell % env.size}
    elif name == "Catch":
        ball, paddle = jax.random.randint(key, (2, NUM_STEPS), 0, env.columns, jnp.int32)
        state = {"ball": ball, "paddle": paddle}
    else:
        low = {"position": -1.2}
        keys = jax.random.split(key, len(WIDEST[name]))
        state = {
            field: jax.random.uniform(k, (NUM_STEPS,), jnp.float32, low.get(field, -high), high)
            for k, (field, high) in zip(keys, WIDEST[name].items(), strict=True)
        }
    if name == "Pendulum":
        action = jax.random.uniform(action_key, (NUM_STEPS, 1), jnp.float32, -3, 3)  # beyond the limits, where it is clipped
    else:
        action = jax.random.randint(action_key, (NUM_STEPS,), 0, int(env.action_space.n), jnp.int32)
    return {**state, "t": t}, action


def by_field(state):
    return {name: np.asarray(x) for name, x in vars(state).items()}


def in_javascript(tmp_path, **given):
    return run_script(HERE / "replay.mjs", modules(tmp_path) / "envs" / "index.js", given=given)


def difference(ours, theirs):
    """The largest, relative to the size where that is more than 1."""
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    assert ours.shape == theirs.shape
    return np.max(np.abs(ours - theirs) / np.maximum(1, np.abs(ours)))


@pytest.mark.parametrize("typed", CASES)
def test_an_environment_moves_as_ours(typed, tmp_path, getkey):
    name, fields, env = make(typed)
    arrays, actions = random_states(name, env, getkey())
    state_class = type(jax.eval_shape(env.reset, jax.random.key(0))[0])

    def step_from(fields, action, key):
        state, step = env.step(state_class(**fields), action, key)
        return state, step, env.action_mask(state)

    states, step, mask = jax.jit(jax.vmap(step_from, in_axes=(0, 0, None)))(arrays, actions, getkey())
    rows = [dict(zip(arrays, row, strict=True)) for row in zip(*(np.asarray(x).tolist() for x in arrays.values()), strict=True)]

    answer = in_javascript(tmp_path, name=name, fields=fields, states=rows, actions=np.asarray(actions).tolist(), seed=1)

    theirs = answer["steps"]
    for field, ours in by_field(states).items():
        got = np.array([row["state"][field] for row in theirs])
        if field in ("theta_1", "theta_2"):  # half a turn to the left is one to the right
            got = got + 2 * np.pi * np.round((ours - got) / (2 * np.pi))
        assert difference(ours, got) < CLOSE, field
    assert difference(np.asarray(step.obs).reshape(NUM_STEPS, -1), [row["obs"] for row in theirs]) < CLOSE
    assert difference(step.reward, [row["reward"] for row in theirs]) < CLOSE
    assert np.asarray(step.terminated).tolist() == [row["terminated"] for row in theirs]
    assert np.asarray(step.truncated).tolist() == [row["truncated"] for row in theirs]
    assert np.sum(step.terminated) >= CASES[typed]
    assert ([None] * NUM_STEPS if mask is None else np.asarray(mask).tolist()) == [row["mask"] for row in theirs]
    assert answer["actions"] is None or len(answer["actions"]) == env.action_space.n

    # A push moves what is there, and makes nothing that is not.
    assert sum(before != after for before, after in zip(rows, answer["pushed"], strict=True)) > NUM_STEPS / 2
    assert all(before.keys() == after.keys() and before["t"] == after["t"] for before, after in zip(rows, answer["pushed"], strict=True))
    assert np.isfinite([list(after.values()) for after in answer["pushed"]]).all()


@pytest.mark.parametrize("typed", ["CartPole", "Pendulum", "MountainCar", "Acrobot", "GridWorld,size=4", "Catch"])
def test_an_environment_starts_as_ours(typed, tmp_path, getkey):
    """The means and the ends of each number's range, from 1,000 starts of each."""
    name, fields, env = make(typed)
    states, obs = jax.jit(jax.vmap(env.reset))(jax.random.split(getkey(), NUM_STEPS))
    rows = [dict.fromkeys(by_field(states), 0)] * NUM_STEPS

    answer = in_javascript(tmp_path, name=name, fields=fields, states=rows, actions=[[0] if name == "Pendulum" else 0] * NUM_STEPS, seed=7)

    assert len(answer["obs"]) == obs[0].size
    for field, ours in by_field(states).items():
        got = np.array([row[field] for row in answer["resets"]])
        spread = np.ptp(ours)
        assert abs(got.mean() - ours.mean()) <= 0.06 * spread, field
        assert abs(got.min() - ours.min()) <= 0.02 * spread, field
        assert abs(got.max() - ours.max()) <= 0.02 * spread, field
