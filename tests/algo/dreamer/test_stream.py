"""Rollouts as streams: where rewards, last observations and ends go."""

import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax.algo.dreamer.stream import as_stream, restored, stored
from rl4jax.collect.rollout import Rollout
from rl4jax.nn.rssm import Latent


def column(*values):
    return jnp.array(values)[:, None]


def test_an_end_adds_its_last_observation_and_rewards_arrive_one_step_later():
    # Two steps of one episode, which terminates; two of the next, which a time limit cuts off; then a third begins.
    reward, no = column(1.0, 2.0, 3.0, 4.0, 5.0), column(False, False, False, False, False)
    terminated, truncated = column(False, True, False, False, False), column(False, False, False, True, False)
    is_first = column(False, False, True, False, True)
    rollout = Rollout(
        obs=column(10, 11, 20, 21, 30), next_obs=column(11, 12, 21, 22, 31), action=None, log_prob=None, value=None, next_value=None,
        reward=reward, terminated=terminated, truncated=truncated, is_first=is_first, mask=None, valid=~no, carry=None, privileged=None,
        episode_return=None, episode_length=None,
    )  # fmt: skip
    rollout = rollout._replace(memory=(Latent(jnp.ones((5, 1, 2)), jnp.ones((5, 1, 3, 4))), jnp.ones((5, 1, 1))))
    stream, real, last_reward = as_stream(rollout, jnp.array([0.5]))
    rows = np.asarray(real)[:, 0]
    shown = {name: np.asarray(getattr(stream, name))[rows, 0].ravel().tolist() for name in stream._fields if name != "latent"}
    assert shown == {
        "obs": [10, 11, 12, 20, 21, 22, 30],
        "action": [1, 1, 0, 1, 1, 0, 1],
        "reward": [0.5, 1, 2, 0, 3, 4, 0],
        "is_first": [False, False, False, True, False, False, True],
        "is_last": [False, False, True, False, False, True, False],
        "is_terminal": [False, False, True, False, False, False, False],
    }
    assert last_reward.tolist() == [5.0]


@pytest.mark.parametrize("spoiled", [{"reward": column(1.0, jnp.nan, 3.0)}, {"obs": column(1.0, 2.0, jnp.inf)}])
def test_what_is_not_finite_is_not_remembered(spoiled):
    no = column(False, False, False)
    rollout = Rollout(
        obs=column(1.0, 2.0, 3.0), next_obs=column(2.0, 3.0, 4.0), action=None, log_prob=None, value=None, next_value=None,
        reward=column(1.0, 2.0, 3.0), terminated=no, truncated=no, is_first=no, mask=None, valid=~no, carry=None, privileged=None,
        episode_return=None, episode_length=None,
    )  # fmt: skip
    memory = (Latent(jnp.ones((3, 1, 2)), jnp.ones((3, 1, 3, 4))), jnp.ones((3, 1, 1)))
    _, real, _ = as_stream(rollout._replace(memory=memory, **spoiled), jnp.zeros(1))
    assert np.asarray(real)[::2, 0].tolist() == [True, True, False]  # a reward arrives with the next observation


def test_a_latent_is_kept_whole():
    latent = Latent(jnp.arange(2.0), jnp.eye(4)[jnp.array([2, 0, 3])])
    again = restored(stored(latent), 4)
    np.testing.assert_array_equal(again.deter, latent.deter)
    np.testing.assert_array_equal(again.stoch, latent.stoch)
