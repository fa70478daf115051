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


def rollout_of(memory=None, **given):
    """Six steps of one episode, and then of the next."""
    no = jnp.zeros((6, 1), bool)
    at = jnp.arange(6.0)[:, None]
    fields = dict.fromkeys(Rollout._fields)
    fields |= {"obs": at, "next_obs": at + 1, "reward": at, "terminated": no.at[2].set(True), "truncated": no, "valid": ~no}
    fields |= {
        "is_first": no.at[3].set(True),
        "memory": memory or (Latent(jnp.ones((6, 1, 2)), jnp.ones((6, 1, 3, 4))), jnp.ones((6, 1, 1))),
    }
    return Rollout(**(fields | given))


def kept(stream, real):
    rows = np.asarray(real)[:, 0]
    return list(zip(np.asarray(stream.obs)[rows, 0].tolist(), np.asarray(stream.is_first)[rows, 0].tolist(), strict=True))


@pytest.mark.parametrize(
    ("left_out", "expected"),
    [
        (None, [(0, False), (1, False), (2, False), (3, False), (3, True), (4, False), (5, False)]),
        (1, [(0, False), (2, True), (3, False), (3, True), (4, False), (5, False)]),
        (3, [(0, False), (1, False), (2, False), (3, False), (4, True), (5, False)]),  # the first of an episode: the next one begins it
        (5, [(0, False), (1, False), (2, False), (3, False), (3, True), (4, False)]),
    ],
)
def test_where_a_step_is_left_out_a_new_stretch_begins(left_out, expected):
    obs = rollout_of().obs
    stream, real, last_reward = as_stream(rollout_of(obs=obs if left_out is None else obs.at[left_out].set(jnp.nan)), jnp.zeros(1))
    assert kept(stream, real) == expected
    assert np.isnan(last_reward[0]) == (left_out == 5)
    later, real, _ = as_stream(rollout_of(), last_reward)  # the step that goes on from one that was left out is left out too
    assert kept(later, real)[0] == ((1, True) if left_out == 5 else (0, False))


@pytest.mark.parametrize("part", ["latent", "action"])
def test_what_an_agent_makes_of_a_step_that_is_not_finite_is_not_remembered(part):
    latent, action = rollout_of().memory
    if part == "latent":
        latent = latent._replace(deter=latent.deter.at[1].set(jnp.nan))
    else:
        action = action.at[1].set(jnp.nan)
    stream, real, _ = as_stream(rollout_of(memory=(latent, action)), jnp.zeros(1))
    assert kept(stream, real)[:2] == [(0, False), (2, True)]


def test_a_latent_is_kept_whole():
    latent = Latent(jnp.arange(2.0), jnp.eye(4)[jnp.array([2, 0, 3])])
    again = restored(stored(latent), 4)
    np.testing.assert_array_equal(again.deter, latent.deter)
    np.testing.assert_array_equal(again.stoch, latent.stoch)
