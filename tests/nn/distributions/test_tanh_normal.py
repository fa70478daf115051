import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax.nn.distributions import TanhNormal
from rl4jax.nn.distributions.tanh_normal import mean_log_cosh
from tests.nn.distributions.oracles import all_finite, assert_frequencies, log_probs, normal_density, samples

BOXES = [(-1.0, 1.0), (0.0, 10.0), (-0.1, 0.3), (100.0, 101.0), (-3e37, 3e37)]


def one(mean, log_std, low=-1.0, high=1.0):
    return TanhNormal(jnp.array([mean], jnp.float32), jnp.array([log_std], jnp.float32), low, high)


def integral_log_cosh(mean, std):
    z = np.linspace(-10, 10, 40001)
    u = np.abs(mean + std * z)
    weight = np.exp(-(z**2) / 2)
    return np.sum(weight * (u + np.log1p(np.exp(-2 * u)) - math.log(2))) / weight.sum()


@pytest.mark.parametrize(("low", "high"), BOXES[:4])
@pytest.mark.parametrize("mean", [-1.5, 0.3])
def test_log_prob_is_the_density_of_the_squashed_variable(low, high, mean):
    u = np.linspace(-2, 2, 9)  # chosen here, so the oracle needs no inverse
    action = (low + high) / 2 + (high - low) / 2 * np.tanh(u)
    density = normal_density(u, mean, math.exp(-0.5)) / ((high - low) / 2 * (1 - np.tanh(u) ** 2))
    got = log_probs(one(mean, -0.5, low, high), jnp.asarray(action, jnp.float32)[:, None])
    np.testing.assert_allclose(got, np.log(density), atol=2e-3 if low == 100 else 2e-4)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (-2.0, 5.0)])
@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.7, -1.0), (-1.0, -0.5), (0.2, -5.0)])
def test_the_density_integrates_to_one_and_matches_the_frequencies(low, high, mean, log_std, getkey):
    pi = one(mean, log_std, low, high)
    middles = low + (high - low) * (np.arange(20000) + 0.5) / 20000
    density = np.exp(np.asarray(log_probs(pi, jnp.asarray(middles, jnp.float32)[:, None]), np.float64))
    mass = density * (high - low) / 20000
    np.testing.assert_allclose(mass.sum(), 1, atol=2e-3)
    cuts = np.searchsorted(np.cumsum(mass), np.linspace(0, 1, 21)[1:-1])
    drawn = np.asarray(samples(pi, jax.random.split(getkey(), 8192)))[:, 0]
    counts = np.bincount(np.searchsorted(middles[cuts], drawn), minlength=20)
    probs = np.array([part.sum() for part in np.split(mass, cuts)])
    assert_frequencies(counts, probs / probs.sum())


def test_entropy_is_within_a_thousandth_of_the_integral_for_every_mean_and_std():
    mean, log_std = np.meshgrid(np.linspace(-3, 3, 13), np.linspace(-5, 2, 15))
    wanted = np.vectorize(integral_log_cosh)(mean, np.exp(log_std))
    got = mean_log_cosh(jnp.float32(mean), jnp.exp(jnp.float32(log_std)))
    np.testing.assert_allclose(got, wanted, atol=5e-5)
    entropy = jax.vmap(lambda m, s: TanhNormal(m[None], s[None], 0.0, 10.0).entropy())
    exact = log_std + 0.5 * math.log(2 * math.pi * math.e) + math.log(5) - 2 * wanted
    np.testing.assert_allclose(entropy(jnp.float32(mean).ravel(), jnp.float32(log_std).ravel()), exact.ravel(), atol=2e-4)


def test_the_estimate_of_the_entropy_holds_far_away_and_has_the_right_gradient():
    for mean in (-40.0, 8.0, 1e6):
        np.testing.assert_allclose(mean_log_cosh(jnp.float32(mean), jnp.float32(0.5)), abs(mean) - math.log(2), rtol=1e-5)
    for mean, std in ((0.0, 1.0), (1.0, 0.1), (-2.0, 3.0), (0.3, 0.0068)):
        grads = jax.grad(mean_log_cosh, (0, 1))(jnp.float32(mean), jnp.float32(std))
        by_mean = (integral_log_cosh(mean + 1e-4, std) - integral_log_cosh(mean - 1e-4, std)) / 2e-4
        by_std = (integral_log_cosh(mean, std + 1e-4) - integral_log_cosh(mean, std - 1e-4)) / 2e-4
        np.testing.assert_allclose(grads, (by_mean, by_std), atol=1e-3)


def test_entropy_is_that_of_its_own_samples(getkey):
    pi = TanhNormal(jnp.array([[0.5, -1.0]]), jnp.array(-0.3), jnp.array([[-1.0, 0.0]]), jnp.array([[1.0, 3.0]]))
    drawn = samples(pi, jax.random.split(getkey(), 16384))
    np.testing.assert_allclose(pi.entropy(), -np.mean(log_probs(pi, drawn)), atol=0.03)


def test_kl_is_the_integral_of_the_two_densities():
    pi, other = one(0.5, -0.7, -2.0, 5.0), one(-0.2, -0.3, -2.0, 5.0)
    middles = jnp.asarray(-2 + 7 * (np.arange(20000) + 0.5) / 20000, jnp.float32)[:, None]
    log_p, log_q = (np.asarray(log_probs(d, middles), np.float64) for d in (pi, other))
    np.testing.assert_allclose(pi.kl(other), np.sum(np.exp(log_p) * (log_p - log_q)) * 7 / 20000, rtol=1e-3)


@jax.jit
@jax.vmap
def values_and_gradients(mean, log_std, action, low, high):
    def values(mean, log_std, action):
        pi, other = TanhNormal(mean, log_std, low, high), TanhNormal(-mean, -log_std, low, high)
        return pi.log_prob(action), pi.entropy(), pi.kl(other)

    return values(mean, log_std, action), jax.jacrev(values, (0, 1, 2))(mean, log_std, action)


@pytest.mark.parametrize(("low", "high"), BOXES)
def test_values_and_gradients_are_finite_in_the_closed_box(low, high):
    low, high = np.float32(low), np.float32(high)
    actions = np.float32([low, np.nextafter(low, high), low / 2 + high / 2, np.nextafter(high, low), high])
    grids = np.meshgrid(np.float32([-100, -3, 0, 3, 100]), np.float32([-50, -5, 0, 2, 50]), actions)
    mean, log_std, action = (x.reshape(-1, 1) for x in grids)
    assert all_finite(values_and_gradients(mean, log_std, action, np.full_like(mean, low), np.full_like(mean, high)))


@pytest.mark.parametrize(("low", "high"), BOXES)
def test_samples_and_modes_never_leave_the_box(low, high, getkey):
    for mean in (-50.0, -2.0, 50.0):
        pi = one(mean, 2.0, low, high)
        drawn = np.asarray(samples(pi, jax.random.split(getkey(), 8192)))
        drawn = np.concatenate([drawn, [pi.mode()]])
        assert drawn.dtype == np.float32
        assert (drawn >= np.float32(low)).all()
        assert (drawn <= np.float32(high)).all()


def test_gradients_reach_mean_and_log_std_through_a_sample(getkey):
    key = getkey()
    grad = jax.grad(lambda pi: pi.sample(key).sum())(one(0.3, 0.0, -2.0, 5.0))
    noise = np.asarray(jax.random.normal(jax.random.clone(key), (1,)), np.float64)
    slope = 3.5 * (1 - np.tanh(0.3 + noise) ** 2)
    np.testing.assert_allclose(grad.mean, slope, rtol=1e-4)
    np.testing.assert_allclose(grad.log_std, slope * noise, rtol=1e-4)


def test_bounds_may_differ_between_elements():
    low, high = jnp.array([-1.0, 0.0]), jnp.array([1.0, 4.0])
    pi = TanhNormal(jnp.array([0.0, 0.5]), jnp.zeros(2), low, high)
    np.testing.assert_allclose(pi.mode(), [0.0, 2 + 2 * math.tanh(0.5)], rtol=1e-6)
    apart = one(0.0, 0.0, -1.0, 1.0), one(0.5, 0.0, 0.0, 4.0)
    np.testing.assert_allclose(pi.entropy(), sum(d.entropy() for d in apart), rtol=1e-5)
    action = jnp.array([0.3, 0.4])
    np.testing.assert_allclose(pi.log_prob(action), apart[0].log_prob(action[:1]) + apart[1].log_prob(action[1:]), rtol=1e-5)
