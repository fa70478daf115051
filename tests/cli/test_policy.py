"""A trained agent in one line."""

import gymnasium
import jax
import numpy as np
import pytest

from rl4jax.algo import ppo
from rl4jax.cli import load_policy, load_run
from rl4jax.cli.main import main
from rl4jax.core.errors import CheckpointError, ConfigError, EnvError
from rl4jax.core.video import Act
from tests.cli.terminal import TINY


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "pendulum"
    flags = ["--normalize-obs", "--core", "lstm", "--total-steps", "64", "--out", str(path), "--quiet", "--json"]
    assert main(["train", "ppo", "Pendulum", *TINY, *flags]) == 0
    return path


def test_load_policy_acts_like_the_state_it_was_saved_from(run, getkey):
    act = load_policy(run)
    assert isinstance(act, Act)
    loaded = load_run(run)
    _, state = loaded.need()
    carry = ours = None
    for _ in range(3):
        obs = jax.random.normal(getkey(), (3,))
        action, carry = ppo.act(state.policy, obs, carry)
        mine, ours = act(obs, ours)
        np.testing.assert_allclose(mine, np.clip(action, -2, 2), rtol=1e-5)
        np.testing.assert_allclose(jax.tree.leaves(ours)[0], jax.tree.leaves(carry)[0], rtol=1e-5, atol=1e-6)
    assert float(state.obs_stats.count) > 0


def test_a_key_makes_it_sample_and_actions_stay_in_their_box(run, getkey):
    act = load_policy(run, "best")
    actions = np.array([act(np.zeros(3, np.float32), key=getkey())[0] for _ in range(50)])
    assert len(np.unique(actions)) > 10
    assert np.abs(actions).max() <= 2


def test_the_observation_may_be_of_numpy(run):
    first, _ = load_policy(run)(np.ones(3, np.float32))
    assert isinstance(first, np.ndarray), "Gymnasium takes no JAX arrays"
    again, _ = load_policy(run)(np.ones(3, np.float32))
    assert first.shape == (1,)
    np.testing.assert_array_equal(first, again)


def test_what_is_not_there_is_said(run, tmp_path):
    with pytest.raises(CheckpointError, match="does not exist"):
        load_policy(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="not the folder of a run"):
        load_policy(tmp_path)
    with pytest.raises(ConfigError, match="'latest' or 'best'"):
        load_policy(run, "worst")
    (tmp_path / "config.json").write_text((run / "config.json").read_text())
    with pytest.raises(CheckpointError, match="no latest checkpoint yet"):
        load_policy(tmp_path)


class Shifted(gymnasium.Env):
    """Counts its actions from 3 and its observations from 5, and allows one action, the one that it shows."""

    observation_space = gymnasium.spaces.Dict(
        place=gymnasium.spaces.Discrete(4, start=5), action_mask=gymnasium.spaces.MultiBinary(4), goal=gymnasium.spaces.Discrete(4, start=3)
    )
    action_space = gymnasium.spaces.Discrete(4, start=3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.wanted = int(self.np_random.integers(4))
        mask = np.zeros(4, np.int8)
        mask[self.wanted] = 1
        return {"place": np.int64(5 + self.wanted), "action_mask": mask, "goal": np.int64(3 + self.wanted)}, {}

    def step(self, action):
        assert self.action_space.contains(action), action
        obs, info = self.reset()
        return obs, float(action == 3 + self.wanted), True, False, info


gymnasium.register("rl4jax-tests/Shifted-v0", Shifted)


def test_of_a_gymnasium_run_it_speaks_the_language_of_that_environment(tmp_path):
    path = tmp_path / "run"
    assert main(["train", "ppo", "gym:rl4jax-tests/Shifted-v0", *TINY, "--total-steps", "32", "--out", str(path), "--quiet"]) == 0
    act, env = load_policy(path), Shifted()
    obs, _ = env.reset(seed=1)
    assert act(obs, mask=np.array([0, 0, 1, 0], np.int8))[0] == 5, "a mask as Gymnasium has them"
    for _ in range(10):
        action, _ = act(obs)
        assert action == 3 + env.wanted
        obs, *_ = env.step(action)


def test_a_policy_that_learned_with_masks_asks_for_them(tmp_path):
    path = tmp_path / "run"
    assert main(["train", "ppo", "GridWorld", *TINY, "--total-steps", "32", "--out", str(path), "--quiet"]) == 0
    act = load_policy(path)
    obs = load_run(path).env.reset(jax.random.key(0))[1][0]
    with pytest.raises(EnvError, match="mask = None, but its environment has masks"):
        act(obs)
    assert act(obs, mask=np.array([False, True, False, False]))[0] == 1
