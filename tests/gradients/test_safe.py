"""Values are those of the plain functions, and gradients are finite everywhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax.gradients import all_finite, keep_if, safe

GOOD = jnp.array([1e-3, 0.5, 1.0, 7.0, 1e6])
BAD = jnp.array([0.0, -0.0, -1.0, 1e-45])


@pytest.mark.parametrize(("ours", "plain"), [(safe.log, jnp.log), (safe.sqrt, jnp.sqrt)])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_where_the_plain_function_is_fine_so_are_we(ours, plain, wrap):
    np.testing.assert_array_equal(wrap(ours)(GOOD), wrap(plain)(GOOD))
    np.testing.assert_allclose(wrap(jax.vmap(jax.grad(ours)))(GOOD), jax.vmap(jax.grad(plain))(GOOD), rtol=1e-6)


@pytest.mark.parametrize(("ours", "value"), [(safe.log, -87.33655), (safe.sqrt, 0.0)])
def test_at_zero_and_below_values_are_held_and_gradients_zero(ours, value):
    bad = BAD if ours is safe.log else BAD[:3]
    np.testing.assert_allclose(ours(bad), np.full(len(bad), value), rtol=1e-6)
    np.testing.assert_array_equal(jax.vmap(jax.grad(ours))(bad), 0)


def test_second_derivatives_are_finite_too():
    for f in (safe.log, safe.sqrt, lambda x: safe.norm(x[None])):
        assert all_finite(jax.vmap(jax.hessian(f))(BAD))


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1), -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_norm_is_that_of_numpy(axis, keepdims, getkey):
    x = jax.random.normal(getkey(), (3, 4))
    expected = np.sqrt(np.square(np.asarray(x, np.float64)).sum(axis, keepdims=keepdims))
    np.testing.assert_allclose(safe.norm(x, axis, keepdims=keepdims), expected, rtol=1e-6)


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1.0, 1e30])
def test_norm_and_its_gradient_at_every_scale(scale):
    x = scale * jnp.array([3.0, 4.0])
    np.testing.assert_allclose(safe.norm(x), 5 * scale, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(safe.norm)(x), [0.6, 0.8] if scale else [0, 0], rtol=1e-6)


def test_max_looks_at_what_is_allowed_only():
    x = jnp.array([[1.0, 5.0, jnp.nan], [2.0, -3.0, jnp.inf], [jnp.nan, 1.0, 2.0]])
    mask = jnp.array([[True, True, False], [True, True, False], [False, False, False]])
    np.testing.assert_array_equal(safe.max(x, 1, where=mask), [5.0, 2.0, 0.0])
    np.testing.assert_array_equal(safe.max(x, 1, where=mask, empty=-1.0)[2], -1.0)
    gradient = jax.grad(lambda x: safe.max(x, 1, where=mask).sum())(x)
    np.testing.assert_array_equal(gradient, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_where_never_shows_the_function_what_it_must_not_see():
    x = jnp.array([4.0, 0.0, -1.0])
    f = lambda x: safe.where(x > 0, lambda x: 1 / jnp.sqrt(x), x, 7.0)  # noqa: E731
    np.testing.assert_allclose(f(x), [0.5, 7.0, 7.0])
    np.testing.assert_allclose(jax.grad(lambda x: f(x).sum())(x), [-1 / 16, 0.0, 0.0])


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf, -jnp.inf])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_a_tree_is_finite_if_all_of_it_is(bad, wrap):
    tree = {"a": jnp.ones((2, 3)), "b": (jnp.array(0.5), jnp.arange(3)), "c": jnp.ones(2, bool)}
    assert wrap(all_finite)(tree)
    assert not wrap(all_finite)(tree | {"a": tree["a"].at[1, 2].set(bad)})
    assert all_finite({"name": "no arrays"})


def test_both_infinities_together_are_not_finite():
    assert not all_finite(jnp.array([jnp.inf, -jnp.inf]))


def test_the_old_tree_is_kept_if_the_new_one_is_not_good():
    new, old = {"w": jnp.ones(2), "n": jnp.int32(2)}, {"w": jnp.zeros(2), "n": jnp.int32(1)}
    assert jax.tree.map(lambda x: x.tolist(), keep_if(jnp.array(True), new, old)) == {"w": [1, 1], "n": 2}
    assert jax.tree.map(lambda x: x.tolist(), jax.jit(keep_if)(jnp.array(False), new, old)) == {"w": [0, 0], "n": 1}


def test_a_nan_stays_and_is_seen():
    assert all(bool(jnp.isnan(f(jnp.float32(jnp.nan)))) for f in (safe.log, safe.sqrt))
    assert bool(jnp.isnan(safe.norm(jnp.array([jnp.nan, 3.0]))))
    assert float(safe.norm(jnp.array([jnp.inf, 3.0]))) == jnp.inf
    assert float(safe.max(jnp.array([-jnp.inf, 5.0]), where=jnp.array([True, False]))) == -jnp.inf


def test_of_nothing_at_all():
    assert float(safe.norm(jnp.zeros(0))) == 0
    np.testing.assert_array_equal(safe.max(jnp.zeros((0, 3)), 0, where=jnp.zeros((0, 3), bool)), np.zeros(3))
