"""Demonstrations from Minari: a real dataset, recorded from Gymnasium's CartPole into a folder of its own, and spaces of every kind."""

import sys
import warnings

import gymnasium
import jax
import minari
import numpy as np
import pytest
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer

import rl4jax as rl
from rl4jax import bc
from tests.fresh_process import run

RECORD = """
import gymnasium, minari
env = minari.DataCollector(gymnasium.make("CartPole-v1"))
env.action_space.seed(0)
for seed in range(3):
    _, over = env.reset(seed=seed), False
    while not over:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        over = terminated or truncated
env.create_dataset("cartpole/random-v0")
env.close()
"""  # in a process of its own, because Minari warns of what it leaves behind


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where datasets are."""
    path = tmp_path_factory.mktemp("minari")
    done = run(RECORD, env={"MINARI_DATASETS_PATH": str(path)})
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))


def test_a_recorded_dataset_holds_what_was_seen_and_done():
    data = bc.from_minari("cartpole/random-v0")
    env, sampled = gymnasium.make("CartPole-v1"), gymnasium.make("CartPole-v1").action_space
    sampled.seed(0)
    obs, actions = [], []
    for seed in range(3):  # the same episodes played again
        now, over = env.reset(seed=seed)[0], False
        while not over:
            action = sampled.sample()
            obs.append(now)
            actions.append(action)
            now, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    np.testing.assert_array_equal(data.obs, np.array(obs))
    np.testing.assert_array_equal(data.action, np.array(actions))
    assert (data.obs.dtype, data.action.dtype, data.mask) == (np.float32, np.int32, None)


def test_a_model_learns_from_it():
    data = bc.from_minari(minari.load_dataset("cartpole/random-v0").filter_episodes(lambda episode: episode.id > 0))
    assert 0 < len(data.action) < len(bc.from_minari("cartpole/random-v0").action)
    cfg = bc.Config(batch_size=16)
    model = rl.nn.ActorCritic(rl.GymVecEnv("CartPole-v1", num_envs=1), key=jax.random.key(0), hidden=(8,))
    _, metrics = bc.train(bc.init(model, data, cfg, key=jax.random.key(1)), data, cfg, 2)
    assert np.isfinite(metrics["eval/loss"]).all()


@pytest.mark.parametrize("place", ["obs", "infos", "nowhere"])
def test_spaces_are_shown_as_everywhere_else(place):
    """Choices that begin at 1, 64-bit numbers, bits as actions, and masks in either place."""
    action_space = spaces.Dict(go=spaces.Discrete(3, start=1), keys=spaces.MultiBinary(2))
    parts = {"x": spaces.Box(-1, 1, (2,), np.float64), "word": spaces.Discrete(4, start=2)}
    mask_space = {"action_mask": spaces.MultiBinary(7)} if place == "obs" else {}
    masks = np.tile(np.array([1, 0, 1, 1, 1, 1, 1], np.int8), (4, 1))  # three steps, and the observation after the last
    seen = {"x": np.arange(4)[:, None] / 4 * np.ones(2), "word": np.arange(2, 6)} | ({"action_mask": masks} if place == "obs" else {})
    done = {"go": np.array([3, 1, 3]), "keys": np.array([[1, 1], [0, 1], [1, 1]], np.int8)}
    infos = {"action_mask": masks} if place == "infos" else {}
    buffer = EpisodeBuffer(None, None, None, seen, done, [0.0] * 3, [False, False, True], [False] * 3, infos)
    dataset = recorded(f"made/{place}-v0", [buffer], spaces.Dict(parts | mask_space), action_space)
    data = bc.from_minari(dataset)
    np.testing.assert_allclose(data.obs["x"], np.arange(3)[:, None] / 4 * np.ones(2))
    assert data.obs["word"].tolist() == [0, 1, 2]
    assert data.action["go"].tolist() == [2, 0, 2], "of 0, 1, 2"
    assert data.action["keys"].tolist() == [[1, 1], [0, 1], [1, 1]]
    assert all(x.dtype == np.int32 for x in jax.tree.leaves(data.action))
    assert set(data.obs) == {"x", "word"}
    if place == "nowhere":
        assert data.mask is None
    else:
        np.testing.assert_array_equal(data.mask, masks[:3].astype(bool))


def recorded(name, buffers, observation_space, action_space):
    with warnings.catch_warnings():  # Minari misses author, code and so on
        warnings.simplefilter("ignore", UserWarning)
        return minari.create_dataset_from_buffers(name, buffers, observation_space=observation_space, action_space=action_space)


def test_a_dataset_that_is_not_here_says_how_to_get_it():
    with pytest.raises(
        rl.ConfigError, match=r"dataset = 'no/such-v0' is not on this machine. Give minari.load_dataset\('no/such-v0', download=True"
    ):
        bc.from_minari("no/such-v0")


def test_a_missing_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ImportError, match=r"bc.from_minari needs an optional package. Install it with: pip install 'rl4jax\[minari\]'"):
        bc.from_minari("cartpole/random-v0")
