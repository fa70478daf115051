"""GAE against a loop a child could read."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rl4jax as rl
from rl4jax.collect import gae


def loop_gae(reward, value, next_value, discount, trace):
    advantage, later = np.zeros_like(reward), np.zeros_like(reward[0])
    for t in reversed(range(len(reward))):
        delta = reward[t] + discount[t] * next_value[t] - value[t]
        later = delta + discount[t] * trace[t] * later
        advantage[t] = later
    return advantage


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, lambda f: jax.vmap(f, in_axes=1, out_axes=1)], ids=["plain", "jit", "vmap"])
@settings(deadline=None, max_examples=15)
@given(shape=st.lists(st.integers(1, 4), min_size=0, max_size=2), num_steps=st.sampled_from([1, 2, 7, 33]), seed=st.integers(0, 99))
def test_gae_matches_a_plain_loop(wrap, shape, num_steps, seed):
    rng = np.random.default_rng(seed)
    shape = (num_steps, *([2, *shape] if wrap not in (jax.jit,) and len(shape) else shape or [2]))
    inputs = [rng.uniform(-1, 1, shape) for _ in range(3)] + [rng.choice([0.0, 0.9, 1.0], shape) for _ in range(2)]
    got = wrap(gae)(*(jnp.asarray(x, jnp.float32) for x in inputs))
    np.testing.assert_allclose(got, loop_gae(*inputs), atol=1e-4)


def test_gae_with_lambda_one_is_the_discounted_return_minus_the_value():
    reward, value = jnp.array([1.0, 2.0, 3.0]), jnp.array([0.5, 0.5, 0.5])
    next_value, ones = jnp.array([0.5, 0.5, 4.0]), jnp.ones(3)
    got = gae(reward, value, next_value, 0.5 * ones, ones)
    np.testing.assert_allclose(got, [1 + 0.5 * 2 + 0.25 * 3 + 0.125 * 4 - 0.5, 2 + 0.5 * 3 + 0.25 * 4 - 0.5, 3 + 0.5 * 4 - 0.5])


def test_gae_bootstraps_through_truncation_and_not_through_termination():
    reward, value = jnp.ones((2, 2)), jnp.zeros((2, 2))
    next_value = jnp.full((2, 2), 10.0)
    discount = jnp.array([[0.9, 0.0], [0.9, 0.9]])  # at time 0 the first episode is truncated, the second terminated
    trace = jnp.array([[0.0, 0.0], [0.95, 0.95]])
    np.testing.assert_allclose(gae(reward, value, next_value, discount, trace)[0], [1 + 0.9 * 10, 1.0])


def test_nothing_leaks_from_one_episode_into_the_one_before():
    rng = np.random.default_rng(0)
    inputs = [jnp.asarray(rng.normal(size=(8, 3)), jnp.float32) for _ in range(3)]
    discount, trace = jnp.full((8, 3), 0.9), jnp.full((8, 3), 0.95).at[3].set(0.0)

    def before(reward):
        return gae(reward, *inputs[1:], discount, trace)[:4].sum()

    assert (jax.grad(before)(inputs[0])[4:] == 0).all()
    assert rl.collect.gae is gae


def test_gae_names_the_array_of_another_shape():
    one = jnp.ones((3, 2))
    with pytest.raises(rl.ShapeError, match=r"gae: discount has shape \(\); it must be that of reward, \(3, 2\)"):
        inspect.unwrap(gae)(one, one, one, jnp.float32(0.99), one)
