"""The rules of the built-in environments, and what all of them have in common."""

import dataclasses
import functools
import itertools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax import envs
from rl4jax.core.errors import ConfigError, EnvError
from rl4jax.core.spaces import struct_of
from rl4jax.envs.probes import AbstractProbe

MASKED = ("GridWorld", "MultiDiscreteNav")
FROM_OBS = ("CartPole", "Pendulum", "MountainCar", "MountainCarContinuous", "Acrobot", *MASKED)

# The environment is an ordinary argument: while these are compiled its numbers are tracers.
reset = jax.jit(lambda env, key: env.reset(key))
resets = jax.jit(lambda env, keys: jax.vmap(env.reset)(keys))
step = jax.jit(lambda env, state, action, key: env.step(state, action, key))
mask_of = jax.jit(lambda env, state: env.action_mask(state))


@pytest.fixture(params=envs.BUILT_IN)
def env(request):
    return envs.make(request.param)


def any_action(env):
    space = env.action_space
    space.seed(0)
    return jnp.asarray(space.sample())


def starts(env, num, seed=0):
    return resets(env, jax.random.split(jax.random.key(seed), num))


@functools.partial(jax.jit, static_argnums=(1, 2))
def rewards_of(env, policy, num_steps, seed=0):
    """Rewards and flags of one episode of `policy(state, obs)`."""

    def one(carry, key):
        state, obs = carry
        state, out = env.step(state, policy(state, obs), key)
        return (state, out.obs), (out.reward, out.terminated, out.truncated)

    reset_key, play_key = jax.random.split(jax.random.key(seed))
    return jax.lax.scan(one, env.reset(reset_key), jax.random.split(play_key, num_steps))[1]


# What all have in common


def test_step_keeps_shapes_and_dtypes_of_reset(env):
    state, obs = jax.eval_shape(env.reset, jax.random.key(0))
    action = struct_of(env.action_space)
    for wrap in (lambda f: f, lambda f: lambda *args: jax.jit(lambda env, *rest: getattr(env, f.__name__)(*rest))(env, *args)):
        after, out = jax.eval_shape(wrap(env.step), state, action, jax.random.key(0))
        kinds = [jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), tree) for tree in (state, after, obs, out.obs)]
        assert kinds[0] == kinds[1]
        assert kinds[2] == kinds[3]
        assert not any(x.weak_type for x in jax.tree.leaves((state, obs, after, out)))
        assert (out.reward.dtype, out.terminated.dtype, out.truncated.dtype) == (jnp.float32, bool, bool)
        assert out.reward.shape == out.terminated.shape == out.truncated.shape == ()


def test_steps_are_safe_under_strict_promotion(env):
    with jax.numpy_dtype_promotion("strict"):
        state, _ = jax.eval_shape(env.reset, jax.random.key(0))
        jax.eval_shape(env.step, state, struct_of(env.action_space), jax.random.key(0))
        jax.eval_shape(env.action_mask, state)


def test_observations_are_in_their_space_and_pictures_are_pictures(env):
    state, obs = reset(env, jax.random.key(0))
    assert np.asarray(obs) in env.observation_space
    for key in jax.random.split(jax.random.key(1), 3):
        state, out = step(env, state, any_action(env), key)
        assert np.asarray(out.obs) in env.observation_space
    picture = env.render(state)
    assert picture.dtype == np.uint8
    assert picture.shape[2] == 3
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 5


@pytest.mark.parametrize("name", FROM_OBS)
def test_a_state_from_an_observation_shows_it_and_moves_alike(name):
    env = envs.make(name)
    state, obs = reset(env, jax.random.key(5))
    copy = env.state_from_obs(np.asarray(obs))
    assert jax.tree.map(lambda x: x.dtype, copy) == jax.tree.map(lambda x: x.dtype, state)
    action = any_action(env)
    assert np.allclose(step(env, state, action, jax.random.key(0))[1].obs, step(env, copy, action, jax.random.key(0))[1].obs, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in envs.BUILT_IN if name not in FROM_OBS])
def test_no_state_is_invented_where_the_observation_does_not_tell(name):
    env = envs.make(name)
    with pytest.raises(EnvError, match="state_from_obs"):
        env.state_from_obs(reset(env, jax.random.key(0))[1])


@pytest.mark.parametrize(
    ("name", "field"), [("CartPole", "gravity"), ("Pendulum", "mass"), ("Acrobot", "gravity"), ("GridWorld", "step_reward")]
)
def test_constants_can_be_batched(name, field):
    env = envs.make(name)
    state, _ = reset(env, jax.random.key(2))
    action = any_action(env)
    values = jnp.array([0.5, 1.0, 2.0])
    _, batched = jax.jit(jax.vmap(lambda x: envs.make(name, **{field: x}).step(state, action, jax.random.key(0))))(values)
    for i, value in enumerate(values):
        _, one = step(envs.make(name, **{field: float(value)}), state, action, jax.random.key(0))
        assert np.allclose(batched.obs[i], one.obs, atol=1e-6)
        assert np.allclose(batched.reward[i], one.reward, atol=1e-6)


@pytest.mark.parametrize(("name", "limit"), [("GridWorld", 100), ("MultiDiscreteNav", 50), ("Memory", 20)])
def test_time_limit_truncates(name, limit):
    env = envs.make(name)
    state, _ = reset(env, jax.random.key(0))
    for t, truncated in ((limit - 2, False), (limit - 1, True)):
        late = dataclasses.replace(state, t=jnp.int32(t))
        assert step(env, late, jnp.zeros(env.action_space.shape, jnp.int32), jax.random.key(0))[1].truncated == truncated


def test_an_episode_can_terminate_and_truncate_at_once():
    fallen = envs.CartPole(max_steps=1).state_from_obs(np.array([0.0, 0.0, 1.0, 0.0]))
    _, out = step(envs.CartPole(max_steps=1), fallen, 0, jax.random.key(0))
    assert (out.terminated, out.truncated, out.reward) == (True, True, 1)


# Physics


def test_acrobot_hanging_at_rest_stays_at_rest():
    env = envs.Acrobot()
    rest = env.state_from_obs(np.array([1.0, 0.0, 1.0, 0.0, 0.0, 0.0]))
    state = rest
    for _ in range(10):
        state, _ = step(env, state, 1, jax.random.key(0))
    assert jnp.stack(jax.tree.leaves(state)[:-1]).tolist() == [0.0] * 4


def test_pendulum_picture_is_upright_at_angle_zero():
    env = envs.Pendulum()
    red = env.render(env.state_from_obs(np.array([1.0, 0.0, 0.0])))[:, 200, 0] > 200
    blue = env.render(env.state_from_obs(np.array([1.0, 0.0, 0.0])))[:, 200, 2] < 120
    rows = np.flatnonzero(red & blue)
    assert rows.max() < 215
    assert rows.min() < 70


# Boards


def test_grid_world_starts_anywhere_but_at_the_goal():
    states, _ = starts(envs.GridWorld(), 2_000)
    assert {int(cell) for cell in states.row * 7 + states.column} == set(range(48))


def test_grid_world_moves_as_its_actions_say():
    env = envs.GridWorld()
    middle = env.state_from_obs(np.array([3, 3, 6, 6]) / 7)
    for action, place in enumerate([(2, 3), (3, 4), (4, 3), (3, 2)]):
        state, out = step(env, middle, action, jax.random.key(0))
        assert (state.row, state.column) == place
        assert np.allclose(out.obs, np.array([*place, 6, 6]) / 7)
        assert (out.reward, out.terminated) == (np.float32(-0.01), False)


def test_grid_world_masks_moves_off_the_board_and_stays_if_they_are_made():
    env = envs.GridWorld(size=3)
    for row, column in itertools.product(range(3), repeat=2):
        state = env.state_from_obs(np.array([row, column, 2, 2]) / 3)
        moved = [step(env, state, action, jax.random.key(0))[0] for action in range(4)]
        stays = [(int(after.row), int(after.column)) == (row, column) for after in moved]
        assert mask_of(env, state).tolist() == [not stay for stay in stays]


def test_grid_world_rewards_and_ends_at_the_goal():
    env = envs.GridWorld()
    _, out = step(env, env.state_from_obs(np.array([5, 6, 6, 6]) / 7), 2, jax.random.key(0))
    assert (out.reward, out.terminated, out.truncated) == (1, True, False)


def test_nav_places_agent_and_goal_on_all_pairs_of_different_cells():
    states, _ = starts(envs.MultiDiscreteNav(size=2), 500)
    pairs = {(*place, *goal) for place, goal in zip(states.place.tolist(), states.goal.tolist(), strict=True)}
    assert len(pairs) == 4 * 3
    assert all(pair[:2] != pair[2:] for pair in pairs)


def test_nav_optimal_player_needs_as_many_steps_as_a_king():
    env = envs.MultiDiscreteNav()
    for seed in range(10):
        state, _ = reset(env, jax.random.split(jax.random.key(seed))[0])
        distance = int(jnp.abs(state.place - state.goal).max())
        reward, terminated, _ = rewards_of(env, walk_like_a_king, 4, seed)
        assert np.allclose(reward[:distance], [-0.1] * (distance - 1) + [1.0])
        assert terminated[:distance].tolist() == [False] * (distance - 1) + [True]


def walk_like_a_king(state, obs):
    return jnp.sign(state.goal - state.place) + 1


def test_nav_mask_is_flat_and_forbids_just_the_moves_off_the_board():
    env = envs.MultiDiscreteNav(size=3)
    for row, column in itertools.product(range(3), repeat=2):
        state = env.state_from_obs(np.array([row, column, 2, 2]) / 2)
        inside = [[0 <= place + move <= 2 for move in (-1, 0, 1)] for place in (row, column)]
        assert mask_of(env, state).tolist() == [*inside[0], *inside[1]]
        assert step(env, state, jnp.array([0, 2]), jax.random.key(0))[0].place.tolist() == [max(row - 1, 0), min(column + 1, 2)]


def test_memory_gives_a_perfect_player_all_but_the_first_rewards():
    reward, terminated, truncated = rewards_of(envs.Memory(), lambda state, obs: state.shown[0], 20)
    assert reward.tolist() == [0.0] * 3 + [1.0] * 17
    assert not terminated.any()
    assert truncated.tolist() == [False] * 19 + [True]


@pytest.mark.parametrize("delay", [0, 1, 4])
def test_memory_asks_for_the_observation_of_so_many_steps_ago(delay):
    env = envs.Memory(delay=delay, num_symbols=3)
    state, obs = reset(env, jax.random.key(0))
    seen = [int(obs.argmax())]
    for key in jax.random.split(jax.random.key(1), 12):
        right = seen[-1 - delay] if len(seen) > delay else 0
        assert [float(step(env, state, a, jax.random.clone(key))[1].reward) for a in range(3)] == [
            float(a == right and len(seen) > delay) for a in range(3)
        ]
        state, out = step(env, state, right, key)
        assert out.obs.sum() == 1
        seen.append(int(out.obs.argmax()))


def test_memory_gives_a_constant_player_chance():
    reward, _, _ = rewards_of(envs.Memory(max_steps=4_000), lambda state, obs: 2, 4_000)
    assert abs(reward[3:].mean() - 1 / 4) < 0.03


@pytest.mark.parametrize(("follow", "wanted"), [(True, 1.0), (False, -1.0)])
def test_catch_pays_at_the_bottom_row_only(follow, wanted):
    def chase(state, obs):
        towards = jnp.sign(state.ball - state.paddle)
        away = jnp.where(state.ball >= 2, -1, 1)
        return (towards if follow else away) + 1

    for seed in range(3):
        reward, terminated, truncated = rewards_of(envs.Catch(), chase, 9, seed)
        assert reward.tolist() == [0.0] * 8 + [wanted]
        assert terminated.tolist() == [False] * 8 + [True]
        assert not truncated.any()


def test_catch_shows_ball_and_paddle():
    env = envs.Catch(rows=4, columns=3)
    states, boards = starts(env, 50)
    assert set(states.ball.tolist()) == {0, 1, 2}
    state = jax.tree.map(lambda x: x[0], states)
    wanted = np.zeros((4, 3, 1), np.uint8)
    wanted[0, int(state.ball)] = wanted[3, 1] = 255
    assert (boards[0] == wanted).all()
    _, out = step(env, state, 0, jax.random.key(0))
    wanted = np.zeros((4, 3, 1), np.uint8)
    wanted[1, int(state.ball)] = wanted[3, 0] = 255
    assert (out.obs == wanted).all()


# Probes


@pytest.mark.parametrize("name", [name for name in envs.BUILT_IN if name.startswith("Probe")])
def test_probe_values_are_those_of_brute_force(name):
    env, gamma = envs.make(name), 0.9
    assert isinstance(env, AbstractProbe)
    seen = set()
    for seed in range(8):
        state, obs = reset(env, jax.random.key(seed))
        seen.add(float(obs[0]))
        assert np.isclose(env.optimal_value(obs, gamma), best_return(env, state, gamma))
    assert seen == ({-1.0, 1.0} if name in ("ProbeObservation", "ProbeContext") else {0.0})


def best_return(env, state, gamma):
    """The best over all sequences of actions: nothing in a probe is random after its reset."""
    returns = []
    for action in range(env.action_space.n):
        after, out = step(env, state, action, jax.random.key(0))
        later = 0.0 if out.terminated else best_return(env, after, gamma)
        if not out.terminated:
            assert np.isclose(env.optimal_value(out.obs, gamma), later)
        returns.append(float(out.reward) + gamma * later)
    return max(returns)


def test_a_wrong_action_costs_in_the_probes_with_two():
    for name in ("ProbeAction", "ProbeContext"):
        env = envs.make(name)
        state, _ = reset(env, jax.random.key(0))
        assert sorted(float(step(env, state, action, jax.random.key(0))[1].reward) for action in (0, 1)) == [-1, 1]


# The registry


def test_make_changes_fields():
    assert envs.make("CartPole", gravity=1.6) == envs.CartPole(gravity=1.6)


def test_make_suggests_the_nearest_name():
    with pytest.raises(EnvError, match="Did you mean 'CartPole'"):
        envs.make("cartpole")


def test_make_names_the_fields_of_an_environment():
    with pytest.raises(ConfigError, match=r"Did you mean 'gravity'.*Known: .*max_steps"):
        envs.make("CartPole", gravty=9.8)
    with pytest.raises(ConfigError, match=r"no field 'size'\. Known: actions"):
        envs.make("ProbeAction", size=3)


@pytest.mark.parametrize(
    ("name", "fields"), [("GridWorld", {"size": 1}), ("MultiDiscreteNav", {"size": 1}), ("Memory", {"delay": -1}), ("Catch", {"rows": 1})]
)
def test_impossible_boards_are_refused(name, fields):
    with pytest.raises(ConfigError, match=f"{name}.{next(iter(fields))}"):
        envs.make(name, **fields)


def test_the_list_of_names_is_the_public_face():
    assert set(envs.BUILT_IN) | {"BUILT_IN", "make"} == set(dir(envs))


def test_names_are_known_without_importing_jax():
    code = "import sys, rl4jax.envs.registry as r; assert len(r.BUILT_IN) == 15; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
