import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import rl4jax as rl


@pytest.mark.parametrize("name", rl.envs.BUILT_IN)
# Gymnasium's checker advises against unbounded observations and unscaled actions, which CartPole and Pendulum have there too.
@pytest.mark.filterwarnings("ignore:.*(infinity|symmetric and normalized)")
def test_gymnasiums_own_checker_passes(name):
    env = gymnasium.make(f"rl4jax/{name}-v0", render_mode="rgb_array")
    check_env(env.unwrapped)
    env.reset(seed=0)
    frame = env.render()
    assert isinstance(frame, np.ndarray)
    assert frame.dtype == np.uint8
    assert frame.shape[-1] == 3
    assert frame.std() > 0, "an empty picture"
    env.close()


def test_an_exported_episode_is_the_in_graph_one():
    env = rl.envs.CartPole()
    shell = rl.to_gymnasium(env)
    obs, _ = shell.reset(seed=3)
    state = env.state_from_obs(obs)
    for t in range(500):
        action = t % 2
        state, wanted = jax.jit(env.step)(state, action, jax.random.key(0))
        obs, reward, terminated, truncated, _ = shell.step(action)
        np.testing.assert_allclose(obs, wanted.obs, atol=1e-6)
        state = env.state_from_obs(obs)
        assert (reward, terminated, truncated) == (float(wanted.reward), bool(wanted.terminated), bool(wanted.truncated))
        if terminated or truncated:
            break
    assert t > 10


def test_the_seed_decides_and_without_one_episodes_differ():
    env = rl.to_gymnasium(rl.envs.CartPole())
    first = env.reset(seed=1)[0]
    second = env.reset()[0]
    assert (first != second).any()
    assert (env.reset(seed=1)[0] == first).all()
    assert (env.reset()[0] == second).all()


def test_masks_are_in_info():
    env = rl.to_gymnasium(rl.envs.GridWorld())
    _, info = env.reset(seed=0)
    assert info["action_mask"].shape == (4,)
    _, _, _, _, info = env.step(int(info["action_mask"].argmax()))
    assert info["action_mask"].shape == (4,)


def test_what_it_returns_may_be_changed_by_the_caller():
    env = rl.to_gymnasium(rl.envs.CartPole())
    obs, _ = env.reset(seed=0)
    obs[:] = 99
    assert (env.step(0)[0] < 50).all()


def test_wrong_use_is_named():
    env = rl.to_gymnasium(rl.envs.CartPole())
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action = 2 \(int\) is not in action_space Discrete\(2\)"):
        env.step(2)
    with pytest.raises(ValueError, match=r"render_mode = 'human' must be None or 'rgb_array'"):
        rl.to_gymnasium(rl.envs.CartPole(), render_mode="human")


def test_continuous_actions_may_be_float64_and_leave_their_bounds_as_in_gymnasium():
    ours, theirs = gymnasium.make("rl4jax/Pendulum-v0"), gymnasium.make("Pendulum-v1")
    obs, _ = ours.reset(seed=0)
    theirs.reset(seed=0)
    theirs.unwrapped.state = np.array([np.arctan2(obs[1], obs[0]), obs[2]])  # pyright: ignore
    for action in (np.array([1.0]), [0.5], np.array([2.5]), np.float32([-9])):
        np.testing.assert_allclose(ours.step(action)[0], theirs.step(np.asarray(action))[0], atol=1e-4)
    with pytest.raises(ValueError, match="is not in action_space Box"):
        ours.step(np.zeros(2))


def test_fields_can_be_given_by_id():
    env = gymnasium.make("rl4jax/CartPole-v0", gravity=1.5)
    assert env.unwrapped.env.gravity == 1.5  # pyright: ignore[reportAttributeAccessIssue]
