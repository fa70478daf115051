"""A trained agent in one line."""

import jax
import numpy as np
import pytest

from rl4jax.algo import ppo
from rl4jax.cli import load_policy, load_run
from rl4jax.cli.main import main
from rl4jax.core.errors import CheckpointError, ConfigError
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
