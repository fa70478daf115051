"""The classic-control environments against Gymnasium's, step by step: ours in one compiled scan, theirs in a plain loop."""

import dataclasses
import functools
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax.envs import Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum

NUM_ENVS, NUM_STEPS, NUM_WIDE = 20, 550, 2_000
TOLERANCE = 1e-4

# Each environment with the box its wide states are drawn from: to the limits and a little beyond.
CASES = {
    "CartPole-v1": (CartPole(), [2.45, 4.0, 0.22, 4.0]),
    "Pendulum-v1": (Pendulum(), [80.0, 8.0]),
    "MountainCar-v0": (MountainCar(), [1.2, 0.07]),
    "MountainCarContinuous-v0": (MountainCarContinuous(), [1.2, 0.07]),
    "Acrobot-v1": (Acrobot(), [np.pi, np.pi, 2 * np.pi, 4.5 * np.pi]),
}
ANGLES = {"Acrobot-v1": [0, 1]}  # compared around the circle: -pi is pi


@pytest.fixture(scope="module", params=CASES)
def played(request):
    """Ours and theirs from the same states with the same actions: (state, reward, terminated, obs) of each, as NumPy."""
    env, wide = CASES[request.param]
    visited = visit(env, draw_actions(env, NUM_STEPS * NUM_ENVS, seed=1), jax.random.key(1))
    before = np.concatenate([visited, draw_states(env, wide, seed=2)])
    actions = draw_actions(env, len(before), seed=3)
    ours = jax.device_get(step_ours(env, before, actions))
    theirs = step_theirs(gymnasium.make(request.param).unwrapped, before, actions)
    return request.param, env, ours, theirs


def draw_actions(env, num, seed):
    """Random actions; continuous ones also from outside their box, where they are clipped."""
    space = env.action_space
    space.seed(seed)
    actions = np.stack([space.sample() for _ in range(num)])
    return 1.2 * actions if isinstance(space, gymnasium.spaces.Box) else actions


def draw_states(env, wide, seed):
    states = np.random.default_rng(seed).uniform(-np.array(wide), wide, (NUM_WIDE, len(wide))).astype(np.float32)
    is_car = isinstance(env, MountainCar | MountainCarContinuous)
    return np.clip(states, env.observation_space.low, env.observation_space.high) if is_car else states  # no car is behind the wall


@jax.jit
def visit(env, actions, key):
    """The states of random play, begun anew at each end; flat."""

    def one(states, action_and_key):
        actions, key = action_and_key
        keys = jax.random.split(key, NUM_ENVS)
        return jax.vmap(functools.partial(move_on, env))(states, actions, keys), jax.vmap(to_vector)(states)

    start_key, play_key = jax.random.split(key)
    starts, _ = jax.vmap(env.reset)(jax.random.split(start_key, NUM_ENVS))
    actions = actions.reshape(NUM_STEPS, NUM_ENVS, *actions.shape[1:])
    states = jax.lax.scan(one, starts, (actions, jax.random.split(play_key, NUM_STEPS)))[1]
    return states.reshape(NUM_STEPS * NUM_ENVS, -1)


def move_on(env, state, action, key):
    step_key, reset_key = jax.random.split(key)
    after, step = env.step(state, action, step_key)
    start, _ = env.reset(reset_key)
    return jax.tree.map(lambda new, old: jnp.where(step.terminated | step.truncated, new, old), start, after)


@jax.jit
def step_ours(env, before, actions):
    def one(vector, action):
        state, step = env.step(from_vector(env, vector), action, jax.random.key(0))
        return to_vector(state), step

    return jax.vmap(one)(before, actions)


def to_vector(state):
    return jnp.stack(jax.tree.leaves(state)[:-1])  # all but the step counter


def from_vector(env, vector):
    blank = jax.eval_shape(env.reset, jax.random.key(0))[0]
    return jax.tree.unflatten(jax.tree.structure(blank), [*vector, jnp.int32(0)])


def step_theirs(env, before, actions):
    env.reset(seed=0)
    rows = []
    for vector, action in zip(before, actions, strict=True):
        # MountainCarContinuous keeps float32, the others compute in float64.
        env.state = vector.copy() if "Continuous" in type(env).__name__ else vector.astype(np.float64)
        env.steps_beyond_terminated = None  # CartPole warns of steps after the end
        obs, reward, terminated, _, _ = env.step(action)
        rows.append((np.array(env.state, np.float64), reward, terminated, obs))
    return [np.array(column) for column in zip(*rows, strict=True)]


def test_ten_thousand_steps_lead_to_the_same_states(played):
    name, _, (state, step), (their_state, _, _, their_obs) = played
    error = state - their_state
    for angle in ANGLES.get(name, []):
        error[:, angle] = (error[:, angle] + np.pi) % (2 * np.pi) - np.pi
    assert len(error) >= 10_000
    assert np.abs(error).max() < TOLERANCE
    assert np.abs(step.obs - their_obs).max() < TOLERANCE


def test_rewards_and_ends_are_the_same(played):
    _, _, (_, step), (_, reward, terminated, _) = played
    assert (step.terminated == terminated).all()
    assert np.abs(step.reward - reward).max() < TOLERANCE
    assert not step.truncated.any()


def test_some_steps_end_an_episode(played):
    name, _, (_, step), _ = played
    assert step.terminated.any() == (name != "Pendulum-v1")
    assert not step.terminated.all()


def test_spaces_are_the_same(played):
    name, env, _, _ = played
    theirs = gymnasium.make(name)
    assert env.observation_space == theirs.observation_space
    assert env.action_space == theirs.action_space


def set_state(env: Any, state):
    env.unwrapped.state = state


def test_time_limit_truncates_at_the_same_step(played):
    name, env, _, _ = played
    theirs = gymnasium.make(name)
    limit = env.max_steps
    theirs.reset(seed=0)
    still = jnp.zeros_like(to_vector(env.reset(jax.random.key(0))[0]))
    action = theirs.action_space.sample()

    def one(t):
        state = dataclasses.replace(from_vector(env, still), t=t)  # no episode ends in one step from rest
        return env.step(state, action, jax.random.key(0))[1].truncated

    ours = jax.jit(jax.vmap(one))(jnp.arange(limit, dtype=jnp.int32))
    for t in range(limit):
        set_state(theirs, np.zeros(len(still)))
        assert theirs.step(action)[3] == ours[t]
    assert ours[-1]


def test_acrobot_at_top_speed_differs_no_more_than_float32_must():
    # Here its step of 0.2 s turns a link almost all the way around, and one rounding of the state moves the result by up to 1e-3.
    env, wide = Acrobot(), np.array([np.pi, np.pi, 4 * np.pi, 9 * np.pi], np.float32)
    before, actions = draw_states(env, wide, seed=4), draw_actions(env, NUM_WIDE, seed=5)
    _, step = jax.device_get(step_ours(env, before, actions))
    _, _, terminated, their_obs = step_theirs(gymnasium.make("Acrobot-v1").unwrapped, before, actions)
    error = np.abs(step.obs - their_obs).max(1)
    assert np.quantile(error, 0.99) < TOLERANCE
    assert error.max() < 10 * TOLERANCE
    assert (step.terminated == terminated).all()
    assert (np.abs(step.obs[:, 4:]) == wide[2:]).any(0).all()  # both speeds were clipped somewhere


@pytest.mark.parametrize("name", CASES)
def test_episodes_start_in_the_same_range(name):
    env, _ = CASES[name]
    theirs = gymnasium.make(name).unwrapped
    starts = np.array([theirs.reset(seed=seed)[0] for seed in range(500)])
    _, ours = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(1), 500))
    width = starts.max(0) - starts.min(0)
    assert np.allclose(starts.min(0), ours.min(0), atol=0.05 * width.max())
    assert np.allclose(starts.max(0), ours.max(0), atol=0.05 * width.max())
