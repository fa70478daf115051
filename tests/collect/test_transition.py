"""Transitions of n steps against a loop a child could read."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rl4jax as rl
from rl4jax.collect.transition import begin_window, fold

GAMMA = 0.9
B = 2


def random_steps(rng, num_steps, *, masked=False, dead=False):
    """Steps of B environments whose observations are numbers of their own, so that any mistake of place shows."""
    terminated = rng.random((num_steps, B)) < 0.15
    truncated = rng.random((num_steps, B)) < 0.15  # at times both: a time limit says so even if the episode just ended
    ended = terminated | truncated
    valid = np.ones((num_steps, B), bool)
    if dead:  # the slot after an end is spent on the reset
        for t in range(1, num_steps):
            valid[t] = ~(ended[t - 1] & valid[t - 1])
        terminated, truncated = terminated & valid, truncated & valid
        ended = terminated | truncated
    first = np.concatenate([np.ones((1, B), bool), (ended | ~valid)[:-1]])
    obs = np.arange(num_steps * B, dtype=np.float32).reshape(num_steps, B, 1)
    return rl.Rollout(
        obs=obs,
        next_obs=obs + 0.5,
        action=rng.integers(0, 3, (num_steps, B)).astype(np.int32),
        log_prob=None,
        value=None,
        next_value=None,
        reward=rng.normal(size=(num_steps, B)).astype(np.float32),
        terminated=terminated,
        truncated=truncated,
        is_first=first,
        mask=rng.random((num_steps, B, 3)) < 0.7 if masked else None,
        valid=valid,
        carry=None,
        privileged=None,
        episode_return=np.full((num_steps, B), np.nan, np.float32),
        episode_length=np.zeros((num_steps, B), np.int32),
    )


def loop_transitions(steps, n, num_known):
    """Every transition that begins at a real step and whose end is known, in order of time."""
    out = []
    for t in range(num_known):
        for b in range(B):
            if not steps.valid[t, b]:
                continue
            reward, discount, k = 0.0, 1.0, t
            while True:
                reward += discount * steps.reward[k, b]
                discount *= 0.0 if steps.terminated[k, b] else GAMMA
                if steps.terminated[k, b] or steps.truncated[k, b] or k == t + n - 1:
                    break
                k += 1
            if steps.mask is not None and steps.truncated[k, b] and not steps.terminated[k, b]:
                continue  # what would have been allowed is not known
            allowed = None if steps.mask is None else (np.ones(3, bool) if steps.terminated[k, b] else steps.mask[k + 1, b])
            out.append((steps.obs[t, b, 0], steps.action[t, b], reward, discount, steps.next_obs[k, b, 0], allowed))
    return out


@pytest.mark.parametrize("xp", [np, jnp])
@settings(deadline=None, max_examples=20)
@given(
    n=st.sampled_from([1, 2, 3, 5]),
    parts=st.lists(st.integers(1, 4), min_size=3, max_size=6),
    seed=st.integers(0, 99),
    masked=st.booleans(),
    dead=st.booleans(),
)
def test_transitions_of_rollouts_of_any_length_match_a_plain_loop(xp, n, parts, seed, masked, dead):
    steps = random_steps(np.random.default_rng(seed), sum(parts), masked=masked, dead=dead)
    mask = None if steps.mask is None else steps.mask[0]
    window = begin_window(steps.obs[0], jax.ShapeDtypeStruct((), np.int32), mask, n, xp)
    got, start = [], 0
    for length in parts:
        rollout = jax.tree.map(lambda x, a=start, b=start + length: xp.asarray(x[a:b]), steps)
        window, items, valid = fold(window, rollout, n, GAMMA, xp)
        for i in np.flatnonzero(np.asarray(valid)):
            one = jax.tree.map(lambda x, i=i: np.asarray(x)[i], items)
            got.append((one.obs[0], one.action, one.reward, one.discount, one.next_obs[0], one.next_mask))
        start += length
    want = loop_transitions(steps, n, sum(parts) - (n if masked else n - 1))
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(np.array(mine[:5]), np.array(theirs[:5]), atol=1e-5)
        assert masked == (mine[5] is not None)
        if masked and mine[3] > 0:  # after a termination nobody asks
            assert np.array_equal(mine[5], theirs[5])


def test_an_episode_that_was_given_up_is_cut_off_where_the_next_begins():
    steps = random_steps(np.random.default_rng(0), 4)
    never = np.zeros((4, B), bool)
    first = never.copy()
    first[[0, 2]] = True  # as after `begin`, in the middle of an episode
    steps = steps._replace(terminated=never, truncated=never, is_first=first)
    window = begin_window(steps.obs[0], jax.ShapeDtypeStruct((), np.int32), None, 3, np)
    _, items, valid = fold(window, steps, 3, GAMMA, np)
    assert valid.tolist() == [False] * 4 + [True] * 4
    second = jax.tree.map(lambda x: x[6], items)  # begins at step 1, the last before the cut
    np.testing.assert_allclose(second.reward, steps.reward[1, 0])
    np.testing.assert_allclose(second.discount, GAMMA)
    assert second.next_obs[0] == steps.next_obs[1, 0, 0]
