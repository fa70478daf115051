"""UPGO against numbers worked out by hand, a plain loop, and its two limits."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rl4jax as rl
from rl4jax.collect import n_step, upgo


def loop_upgo(reward, value, next_value, discount, trace, mode):
    """One environment, step by step."""
    target = np.zeros_like(reward)
    for t in reversed(range(len(reward))):
        last = t == len(reward) - 1 or trace[t] == 0
        if mode == "alphastar":
            follow = not last and reward[t + 1] + discount[t + 1] * next_value[t + 1] >= value[t + 1]
            target[t] = reward[t] + discount[t] * (target[t + 1] if follow else next_value[t])
        elif reward[t] + discount[t] * next_value[t] >= value[t]:
            target[t] = reward[t] + discount[t] * (next_value[t] if last else target[t + 1])
        else:
            target[t] = value[t]
    return target - value


def random_inputs(shape, seed):
    rng = np.random.default_rng(seed)
    kind = rng.choice(["on", "terminated", "truncated"], shape, p=[0.7, 0.15, 0.15])
    numbers = rng.integers(-8, 9, (3, *shape)) / 4  # equal sides of the test are common, and no rounding decides it
    return [*numbers, np.where(kind == "terminated", 0.0, 0.5), np.where(kind == "on", 1.0, 0.0)]


def single(inputs):
    return [jnp.asarray(x, jnp.float32) for x in inputs]


MODES = ("alphastar", "rl4burn")


def both_modes(*inputs):
    return [upgo(*inputs, mode=mode) for mode in MODES]


WRAPS = {"plain": both_modes, "jit": jax.jit(both_modes), "vmap": jax.jit(jax.vmap(both_modes, in_axes=1, out_axes=1))}


@settings(deadline=None, max_examples=40)
@given(
    wrap=st.sampled_from(["jit", "vmap"]),
    batch=st.sampled_from([(2,), (3, 2)]),
    num_steps=st.sampled_from([1, 33]),
    seed=st.integers(0, 99),
)
def test_upgo_matches_a_plain_loop(wrap, batch, num_steps, seed):
    check_against_the_loop(wrap, (num_steps, *batch), seed)


@pytest.mark.parametrize(("wrap", "shape"), [("plain", (7, 2)), ("jit", (7,))])
def test_upgo_needs_neither_a_compiler_nor_a_batch(wrap, shape):
    check_against_the_loop(wrap, shape, 1)


def check_against_the_loop(wrap, shape, seed):
    inputs = random_inputs(shape, seed)
    for mode, got in zip(MODES, WRAPS[wrap](*single(inputs)), strict=True):
        columns = [loop_upgo(*column, mode) for column in zip(*(x.reshape(shape[0], -1).T for x in inputs), strict=True)]
        np.testing.assert_allclose(got, np.stack(columns, 1).reshape(shape), atol=1e-5, err_msg=mode)


def test_upgo_of_the_alphastar_example():
    reward, value, next_value = [0, 1, 0, 0, 1], [0.5, 0.6, 0.2, 0.8, 0.3], [0.6, 0.2, 0.8, 0.3, 0.7]
    got = upgo(*single([reward, value, next_value, [0.9, 0.9, 0.9, 0.9, 0.0], [1, 1, 1, 1, 0]]))
    np.testing.assert_allclose(got, [0.9832, 1.048, 0.52, 0.1, 0.7], rtol=1e-5)


@pytest.mark.parametrize(
    ("reward", "values", "gamma", "terminated", "wanted"),
    [
        ([1, 1, 1], [0, 0, 0, 0], 0.99, [0, 0, 1], [2.9701, 1.99, 1.0]),
        ([0, 0, 0], [10, 10, 10, 10], 0.99, [0, 0, 0], [0, 0, 0]),
        ([2, 0], [0, 5, 5], 1.0, [0, 0], [7, 0]),
        ([1, 0], [0, 5, 0], 1.0, [0, 0], [6, 0]),
        ([1, 1, 1, 1], [0, 0, 0, 0, 0], 0.99, [0, 1, 0, 0], [1.99, 1, 1.99, 1]),
        ([2], [1, 0], 1.0, [1], [1]),
        ([0], [5, 0], 1.0, [1], [0]),
    ],
)
def test_upgo_as_in_the_book(reward, values, gamma, terminated, wanted):
    goes_on = 1 - np.array(terminated)
    got = upgo(*single([reward, values[:-1], values[1:], gamma * goes_on, goes_on]), mode="rl4burn")
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_upgo_is_the_monte_carlo_return_where_every_step_goes_up():
    reward, _, next_value, discount, on = single(random_inputs((9, 3), 0))
    value = jnp.full_like(reward, -100.0)
    returns = n_step(reward, next_value, discount, on, 9)
    for mode in ("alphastar", "rl4burn"):
        np.testing.assert_allclose(upgo(reward, value, next_value, discount, on, mode=mode), returns - value, rtol=1e-6)


def test_upgo_is_the_td_error_where_no_step_goes_up():
    reward, _, next_value, discount, on = single(random_inputs((9, 3), 0))
    value = jnp.full_like(reward, 100.0)
    wanted = reward + discount * next_value - value
    np.testing.assert_allclose(upgo(reward, value, next_value, discount, on), wanted, rtol=1e-6)
    np.testing.assert_allclose(upgo(reward, value, next_value, discount, on, mode="rl4burn"), 0.0, atol=1e-6)


@pytest.mark.parametrize("mode", ["alphastar", "rl4burn"])
def test_upgo_leaks_nothing_over_an_end(mode):
    for name, discount_at_end in {"terminated": 0.0, "truncated": 0.9}.items():
        reward, value, next_value, _, _ = single(random_inputs((8, 3), 4))
        discount, trace = jnp.full((8, 3), 0.9).at[3].set(discount_at_end), jnp.ones((8, 3)).at[3].set(0.0)
        other = [x.at[4:].add(50.0) for x in (reward, value, next_value)]
        got = upgo(reward, value, next_value, discount, trace, mode=mode)[:4]
        assert jnp.array_equal(got, upgo(*other, discount, trace, mode=mode)[:4]), name


def test_the_book_never_discourages_and_the_paper_does():
    reward, value, next_value, discount, trace = random_inputs((30, 3), 5)
    next_value[:-1] = np.where(trace[:-1] == 1, value[1:], next_value[:-1])  # one critic
    inputs = single([reward, value, next_value, discount, trace])
    assert (upgo(*inputs, mode="rl4burn") >= 0).all()
    assert (upgo(*inputs) < 0).any()


def test_no_gradient_passes_through_upgo():
    inputs = single(random_inputs((6, 2), 0))
    grads = jax.grad(lambda *inputs: upgo(*inputs).sum(), argnums=(0, 1, 2, 3, 4))(*inputs)
    assert all((g == 0).all() for g in grads)


def test_upgo_names_what_is_wrong():
    one = jnp.ones((3, 2))
    with pytest.raises(rl.ConfigError, match=r"upgo: mode = 'book' must be 'alphastar' or 'rl4burn'"):
        inspect.unwrap(upgo)(one, one, one, one, one, mode="book")
    with pytest.raises(rl.ShapeError, match=r"upgo: value has shape \(3,\)"):
        inspect.unwrap(upgo)(one, one[:, 0], one, one, one)
