import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl


def play(env, key, num_steps, action=0):
    """The states after each step and the steps themselves, of one environment without resets."""
    reset_key, step_key = jax.random.split(key)
    state, obs = env.reset(reset_key)
    states, steps = [], []
    for k in jax.random.split(step_key, num_steps):
        state, step = jax.jit(lambda e, s, k: e.step(s, jnp.asarray(action), k))(env, state, k)
        states.append(state)
        steps.append(step)
    return obs, states, steps


WRAPPED = {
    "EpisodeStats": lambda: rl.EpisodeStats(rl.envs.GridWorld()),
    "TimeLimit": lambda: rl.TimeLimit(rl.envs.GridWorld(), 7),
    "RewardClip": lambda: rl.RewardClip(rl.envs.GridWorld(), 0.005),
    "FlattenObservation": lambda: rl.FlattenObservation(rl.envs.Catch()),
    "FrameStack": lambda: rl.FrameStack(rl.envs.Catch(), 3),
    "ClipAction": lambda: rl.ClipAction(rl.envs.Pendulum()),
    "RescaleAction": lambda: rl.RescaleAction(rl.envs.MountainCarContinuous()),
    "all together": lambda: rl.EpisodeStats(rl.RewardClip(rl.TimeLimit(rl.FrameStack(rl.ClipAction(rl.envs.Pendulum()), 2), 9), 1.0)),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_every_wrapper_keeps_the_contract(name):
    rl.check_env(WRAPPED[name](), num_steps=30)


def test_masks_and_pictures_pass_through_any_number_of_wrappers(getkey):
    env = rl.EpisodeStats(rl.TimeLimit(rl.RewardClip(rl.envs.GridWorld(), 1.0), 5))
    state, _ = env.reset(getkey())
    inner = state.env.env
    assert (env.action_mask(state) == rl.envs.GridWorld().action_mask(inner)).all()
    assert (env.render(state) == rl.envs.GridWorld().render(inner)).all()


def test_episode_stats_hold_return_and_length(getkey):
    _, states, steps = play(rl.EpisodeStats(rl.envs.CartPole()), getkey(), 6)
    assert [int(s.episode_length) for s in states] == [1, 2, 3, 4, 5, 6]
    np.testing.assert_allclose([s.episode_return for s in states], np.cumsum([s.reward for s in steps]))


@pytest.mark.parametrize("outer", [lambda env: env, lambda env: rl.RewardClip(rl.TimeLimit(env, 400), 5.0)])
def test_the_stats_of_the_last_episode_outlive_its_reset(outer, getkey):
    env = rl.VecEnv(outer(rl.EpisodeStats(rl.envs.CartPole())), 3)
    state, _ = env.reset(getkey())
    stats = lambda state: state.env if hasattr(state.env, "last_return") else state.env.env  # noqa: E731
    assert (stats(state).last_length == 0).all()
    running, last = np.zeros(3), np.zeros(3)
    for _ in range(40):
        state, step = env.step(state, jnp.ones(3, jnp.int32), getkey())
        running += step.reward
        ended = np.asarray(step.terminated | step.truncated)
        last = np.where(ended, running, last)
        running = np.where(ended, 0.0, running)
        np.testing.assert_allclose(stats(state).last_return, last)
        np.testing.assert_allclose(stats(state).last_length, last)
        np.testing.assert_allclose(stats(state).episode_return, running)
    assert (last > 0).all()


def test_an_episode_ended_by_an_outer_wrapper_counts(getkey):
    env = rl.VecEnv(rl.TimeLimit(rl.EpisodeStats(rl.envs.Pendulum()), 3), 2)
    state, _ = env.reset(getkey())
    for _ in range(7):
        state, _ = env.step(state, jnp.zeros((2, 1)), getkey())
    assert state.env.env.last_length.tolist() == [3, 3]
    assert (state.env.env.last_return < 0).all()


def test_a_time_limit_truncates_and_never_terminates(getkey):
    _, _, steps = play(rl.TimeLimit(rl.envs.Pendulum(), 4), getkey(), 4, [0.0])
    assert [bool(s.truncated) for s in steps] == [False, False, False, True]
    assert not any(bool(s.terminated) for s in steps)


def test_rewards_are_clipped_on_both_sides(getkey):
    _, _, raw = play(rl.envs.Pendulum(), jax.random.key(1), 5, [2.0])
    _, _, clipped = play(rl.RewardClip(rl.envs.Pendulum(), 0.5), jax.random.key(1), 5, [2.0])
    np.testing.assert_allclose([s.reward for s in clipped], np.clip([s.reward for s in raw], -0.5, 0.5))


def test_frames_are_stacked_oldest_first(getkey):
    env = rl.FrameStack(rl.envs.CartPole(), 3)
    plain, _, steps = play(rl.envs.CartPole(), jax.random.key(2), 4)
    first, _, stacked = play(env, jax.random.key(2), 4)
    history = [plain, plain, plain] + [s.obs for s in steps]
    assert (first == jnp.concatenate(history[:3])).all()
    for t, step in enumerate(stacked):
        assert (step.obs == jnp.concatenate(history[t + 1 : t + 4])).all()
    assert env.observation_space.shape == (12,)
    assert rl.FrameStack(rl.envs.Catch(), 4).observation_space.shape == (10, 5, 4)


def test_clip_action_moves_actions_to_the_bounds(getkey):
    for action, inside in ([5.0], [2.0]), ([-9.0], [-2.0]), ([0.3], [0.3]):
        _, _, got = play(rl.ClipAction(rl.envs.Pendulum()), jax.random.key(3), 1, action)
        _, _, wanted = play(rl.envs.Pendulum(), jax.random.key(3), 1, inside)
        assert (got[0].obs == wanted[0].obs).all()
    assert not rl.ClipAction(rl.envs.Pendulum()).action_space.is_bounded()


def test_rescale_action_stretches_to_the_bounds(getkey):
    env = rl.RescaleAction(rl.envs.Pendulum(), 0.0, 4.0)
    assert env.action_space == gymnasium.spaces.Box(0, 4, (1,))
    for action, inside in ([0.0], [-2.0]), ([4.0], [2.0]), ([3.0], [1.0]), ([9.0], [2.0]):
        _, _, got = play(env, jax.random.key(3), 1, action)
        _, _, wanted = play(rl.envs.Pendulum(), jax.random.key(3), 1, inside)
        np.testing.assert_allclose(got[0].obs, wanted[0].obs, rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: rl.RewardClip(rl.envs.CartPole(), 0.0), r"RewardClip.limit = 0.0 must be a positive number"),
        (lambda: rl.TimeLimit(rl.envs.CartPole(), 0), r"TimeLimit.max_steps = 0 must be a positive integer"),
        (lambda: rl.FrameStack(rl.envs.CartPole(), 0), r"FrameStack.num_frames = 0 must be"),
        (lambda: rl.FrameStack(rl.envs.CartPole(), True), r"FrameStack.num_frames = True must be"),
        (lambda: rl.ClipAction(rl.envs.CartPole()), r"ClipAction needs a Box action space; CartPole has Discrete\(2\)"),
        (lambda: rl.RescaleAction(rl.ClipAction(rl.envs.Pendulum())), r"bounded on both sides"),
        (lambda: rl.RescaleAction(rl.envs.Pendulum(), 1.0, -1.0), r"RescaleAction.low = 1.0 must be less than high = -1.0"),
    ],
)
def test_senseless_wrappers_are_named(build, message):
    with pytest.raises(rl.Rl4JaxError, match=message):
        build()
