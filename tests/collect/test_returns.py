"""Advantages and returns against loops a child could read, against rlax, and against each other."""

import inspect
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rl4jax as rl
from rl4jax.collect import gae, lambda_returns, n_step, td_lambda

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden" / "rlax.json").read_text())  # see scripts/golden_returns.py


def loop_gae(reward, value, next_value, discount, trace):
    advantage, later = np.zeros_like(reward), np.zeros_like(reward[0])
    for t in reversed(range(len(reward))):
        delta = reward[t] + discount[t] * next_value[t] - value[t]
        later = delta + discount[t] * trace[t] * later
        advantage[t] = later
    return advantage


def loop_lambda_returns(reward, value, next_value, discount, trace):
    returns, later = np.zeros_like(reward), next_value[-1]
    for t in reversed(range(len(reward))):
        later = reward[t] + discount[t] * ((1 - trace[t]) * next_value[t] + trace[t] * later)
        returns[t] = later
    return returns


def loop_n_step(n):
    def loop(reward, value, next_value, discount, trace):
        returns = np.zeros_like(reward)
        for start in range(len(reward)):
            last = min(start + n, len(reward)) - 1
            later = next_value[last]
            for t in reversed(range(start, last + 1)):
                later = reward[t] + discount[t] * ((1 - trace[t]) * next_value[t] + trace[t] * later)
            returns[start] = later
        return returns

    return loop


def without_value(function, *more):
    return lambda reward, value, next_value, discount, trace: function(reward, next_value, discount, trace, *more)


ESTIMATORS = {
    "gae": (gae, loop_gae),
    "lambda_returns": (without_value(lambda_returns), loop_lambda_returns),
    "td_lambda": (td_lambda, lambda *inputs: loop_lambda_returns(*inputs) - inputs[1]),
    "n_step": (without_value(n_step, 3), loop_n_step(3)),
}


def all_estimators(*inputs):
    return {name: function(*inputs) for name, (function, _) in ESTIMATORS.items()}


estimate = jax.jit(all_estimators)  # together: a shape is then compiled once


def random_inputs(shape, seed):
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, shape) for _ in range(3)] + [rng.choice([0.0, 0.9, 1.0], shape) for _ in range(2)]


def single(inputs):
    return [jnp.asarray(x, jnp.float32) for x in inputs]


@settings(deadline=None, max_examples=25)
@given(batch=st.sampled_from([(), (2,), (3, 2)]), num_steps=st.sampled_from([1, 2, 33]), seed=st.integers(0, 99))
def test_estimators_match_a_plain_loop(batch, num_steps, seed):
    inputs = random_inputs((num_steps, *batch), seed)
    for name, got in estimate(*single(inputs)).items():
        np.testing.assert_allclose(got, ESTIMATORS[name][1](*inputs), atol=1e-4, err_msg=name)


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: jax.jit(jax.vmap(f, in_axes=1, out_axes=1))], ids=["plain", "vmap"])
def test_estimators_are_the_same_through_every_transform(wrap):
    inputs = random_inputs((7, 2), 5)
    for name, got in wrap(all_estimators)(*single(inputs)).items():
        np.testing.assert_allclose(got, ESTIMATORS[name][1](*inputs), atol=1e-4, err_msg=name)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{len(case['reward'])}-steps")
def test_returns_equal_those_of_rlax(case):
    reward, value, next_value, discount, trace = single(case[name] for name in ("reward", "value", "next_value", "discount", "trace"))
    np.testing.assert_allclose(lambda_returns(reward, next_value, discount, trace), case["lambda_returns"], atol=1e-5)
    np.testing.assert_allclose(td_lambda(reward, value, next_value, discount, trace), case["td_lambda"], atol=1e-5)
    for n in (1, 3, 50):
        np.testing.assert_allclose(n_step(reward, next_value, discount, trace, n), case[f"n_step_{n}"], atol=1e-5)


def test_lambda_returns_of_the_alphastar_example():
    reward, discount = jnp.array([0.0, 1.0, 0.0, 0.0, 1.0]), jnp.array([0.9, 0.9, 0.9, 0.9, 0.0])
    next_value, trace = jnp.array([0.6, 0.2, 0.8, 0.3, 0.7]), jnp.full(5, 0.8)
    wanted = [1.21746355, 1.5409216, 0.70128, 0.774, 1.0]
    np.testing.assert_allclose(lambda_returns(reward, next_value, discount, trace), wanted, rtol=1e-6)


def random_episodes(seed=0):
    """Values of one critic along episodes that end for both reasons; after a truncation the next value is that of no later step."""
    rng = np.random.default_rng(seed)
    reward, value, next_value = rng.normal(size=(3, 12, 2))
    terminated, truncated = rng.random((2, 12, 2)) < 0.15
    ended = terminated | truncated
    next_value[:-1] = np.where(ended[:-1], next_value[:-1], value[1:])
    return single([reward, value, next_value, np.where(terminated, 0.0, 0.9), np.where(ended, 0.0, 1.0)])


def test_gae_with_lambda_one_is_the_monte_carlo_return_minus_the_value():
    reward, value, next_value, discount, on = random_episodes()
    returns, later = np.zeros(reward.shape), next_value[-1]
    for t in reversed(range(12)):
        later = np.where(on[t] == 1, later, next_value[t])
        later = reward[t] + discount[t] * later
        returns[t] = later
    np.testing.assert_allclose(gae(reward, value, next_value, discount, on), returns - value, atol=1e-5)
    np.testing.assert_allclose(n_step(reward, next_value, discount, on, 12), returns, atol=1e-5)


def test_gae_with_lambda_zero_is_the_one_step_td_error():
    reward, value, next_value, discount, on = random_episodes()
    td_error = reward + discount * next_value - value
    np.testing.assert_allclose(gae(reward, value, next_value, discount, 0 * on), td_error, atol=1e-6)
    np.testing.assert_allclose(n_step(reward, next_value, discount, on, 1) - value, td_error, atol=1e-6)


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
def test_gae_plus_value_is_the_lambda_return(lam):
    reward, value, next_value, discount, on = random_episodes()
    got = gae(reward, value, next_value, discount, lam * on) + value
    np.testing.assert_allclose(lambda_returns(reward, next_value, discount, lam * on), got, atol=1e-5)


def test_td_lambda_moves_the_value_and_not_its_target():
    inputs = random_episodes()
    grads = jax.grad(lambda *inputs: (0.5 * td_lambda(*inputs) ** 2).sum(), argnums=(0, 1, 2))(*inputs)
    np.testing.assert_allclose(grads[1], -td_lambda(*inputs))
    assert (grads[0] == 0).all()
    assert (grads[2] == 0).all()


def test_gradients_pass_through_lambda_returns():
    reward, _, next_value, discount, on = random_episodes()
    grads = jax.grad(lambda reward: lambda_returns(reward, next_value, discount, on).sum())(reward)
    assert (grads >= 1).all()


def test_gae_bootstraps_through_truncation_and_not_through_termination():
    reward, value = jnp.ones((2, 2)), jnp.zeros((2, 2))
    next_value = jnp.full((2, 2), 10.0)
    discount = jnp.array([[0.9, 0.0], [0.9, 0.9]])  # at time 0 the first episode is truncated, the second terminated
    trace = jnp.array([[0.0, 0.0], [0.95, 0.95]])
    np.testing.assert_allclose(gae(reward, value, next_value, discount, trace)[0], [1 + 0.9 * 10, 1.0])


@pytest.mark.parametrize("name", ["gae", "lambda_returns", "n_step"])
def test_nothing_leaks_from_one_episode_into_the_one_before(name):
    rng = np.random.default_rng(0)
    inputs = [jnp.asarray(rng.normal(size=(8, 3)), jnp.float32) for _ in range(3)]
    discount, trace = jnp.full((8, 3), 0.9), jnp.full((8, 3), 0.95).at[3].set(0.0)

    def before(reward):
        return ESTIMATORS[name][0](reward, *inputs[1:], discount, trace)[:4].sum()

    assert (jax.grad(before)(inputs[0])[4:] == 0).all()


def test_estimators_name_themselves_and_the_array_of_another_shape():
    one, number = jnp.ones((3, 2)), jnp.float32(0.99)
    with pytest.raises(rl.ShapeError, match=r"gae: discount has shape \(\); it must be that of reward, \(3, 2\)"):
        inspect.unwrap(gae)(one, one, one, number, one)
    with pytest.raises(rl.ShapeError, match=r"lambda_returns: trace has shape \(\)"):
        inspect.unwrap(lambda_returns)(one, one, one, number)
    with pytest.raises(rl.ShapeError, match=r"td_lambda: value has shape \(2, 2\)"):
        inspect.unwrap(td_lambda)(one, one[1:], one, one, one)
    with pytest.raises(rl.ShapeError, match=r"n_step: next_value has shape \(3,\)"):
        inspect.unwrap(n_step)(one, one[:, 0], one, one, 2)


def test_no_steps_are_an_error():
    nothing = jnp.ones((0, 2))
    with pytest.raises(rl.ShapeError, match=r"gae: reward has shape \(0, 2\); its first axis is time, of at least one step"):
        gae(nothing, nothing, nothing, nothing, nothing)


@pytest.mark.parametrize("n", [0, 1.5, True])
def test_n_must_be_a_positive_integer(n):
    one = jnp.ones((3, 2))
    with pytest.raises(rl.ConfigError, match=rf"n_step: n = {n} must be a positive integer"):
        inspect.unwrap(n_step)(one, one, one, one, n)
