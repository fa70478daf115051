"""The percentile normaliser against NumPy's percentiles."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rl4jax as rl
from rl4jax.collect import PercentileNormalizer

update = jax.jit(lambda normalizer, returns: normalizer.update(returns))


@settings(deadline=None, max_examples=20)
@given(
    shape=st.sampled_from([(1,), (2,), (7, 3)]),
    shares=st.sampled_from([(0.05, 0.95), (0.1, 0.9), (0.0, 1.0), (0.25, 0.3)]),
    decay=st.sampled_from([0.0, 0.5, 0.99]),
    seed=st.integers(0, 99),
)
def test_averages_are_those_of_numpys_percentiles(shape, shares, decay, seed):
    rng = np.random.default_rng(seed)
    normalizer, wanted = PercentileNormalizer.create(*shares, decay), None
    for _ in range(4):
        returns = 50 * rng.standard_normal(shape)
        found = np.percentile(returns, [100 * share for share in shares])
        wanted = found if wanted is None else decay * wanted + (1 - decay) * found
        normalizer = update(normalizer, jnp.asarray(returns, jnp.float32))
    np.testing.assert_allclose([normalizer.low_return, normalizer.high_return], wanted, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(normalizer.scale, max(1.0, wanted[1] - wanted[0]), rtol=1e-4, atol=1e-3)


def test_the_scale_is_one_before_the_first_update_and_the_first_one_seeds_it():
    normalizer = PercentileNormalizer.create()
    assert float(normalizer.scale) == 1.0
    assert float(normalizer.update(jnp.linspace(0.0, 100.0, 101)).scale) == pytest.approx(90.0)


def test_small_returns_are_not_enlarged():
    normalizer = PercentileNormalizer.create().update(jnp.array([0.0, 0.0, 0.01]))
    advantages = jnp.array([0.5, -0.5])
    assert normalizer.normalize(advantages).tolist() == advantages.tolist()


def test_one_huge_return_changes_little():
    returns = jnp.linspace(0.0, 10.0, 100)
    usual = PercentileNormalizer.create().update(returns).scale
    struck = PercentileNormalizer.create().update(returns.at[50].set(1e6)).scale
    np.testing.assert_allclose(struck, usual, rtol=0.03)


def test_advantages_keep_their_sign_and_their_mean():
    normalizer = PercentileNormalizer.create(0.0, 1.0).update(jnp.array([0.0, 4.0]))
    assert normalizer.normalize(jnp.array([[8.0, -2.0]])).tolist() == [[2.0, -0.5]]


def test_gradients_pass_through_advantages_and_not_through_returns():
    def total(returns, advantages):
        return PercentileNormalizer.create(0.0, 1.0).update(returns).normalize(advantages).sum()

    of_returns, of_advantages = jax.grad(total, argnums=(0, 1))(jnp.array([0.0, 4.0]), jnp.ones(2))
    assert of_returns.tolist() == [0.0, 0.0]
    assert of_advantages.tolist() == [0.25, 0.25]


def test_a_normalizer_goes_through_scan_and_vmap():
    returns = jnp.asarray(np.random.default_rng(0).normal(size=(3, 5, 8)), jnp.float32)  # seeds, updates, returns

    def run(returns):
        return jax.lax.scan(lambda n, x: (n.update(x), n.scale), PercentileNormalizer.create(), returns)[0]

    many, one = jax.jit(jax.vmap(run))(returns), PercentileNormalizer.create()
    for x in returns[1]:
        one = one.update(x)
    np.testing.assert_allclose(many.high_return[1], one.high_return, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"low": 0.9, "high": 0.1}, r"\(low, high\) = \(0\.9, 0\.1\) must be shares with 0 <= low < high <= 1"),
        ({"low": 5, "high": 95}, "The 5th percentile is 0.05"),
        ({"low": -0.1}, "0 <= low"),
        ({"decay": 1.0}, r"decay = 1\.0 must be in \[0, 1\)"),
        ({"decay": float("nan")}, "decay = nan"),
    ],
)
def test_shares_and_decay_out_of_range_are_named(settings, message):
    with pytest.raises(rl.ConfigError, match=message):
        PercentileNormalizer.create(**settings)


def test_no_returns_are_an_error():
    with pytest.raises(rl.ShapeError, match=r"PercentileNormalizer\.update: returns has shape \(0,\); at least one is needed"):
        inspect.unwrap(PercentileNormalizer.update)(PercentileNormalizer.create(), jnp.zeros(0))


def test_returns_that_are_not_finite_do_not_count():
    returns, holes = jnp.arange(10.0), jnp.array([jnp.nan, jnp.inf, -jnp.inf])
    clean = PercentileNormalizer.create().update(returns)
    assert PercentileNormalizer.create().update(jnp.concatenate([holes, returns])) == clean
    assert clean.update(holes) == clean
    assert PercentileNormalizer.create().update(holes).scale == 1
