import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax.nn.distributions import Normal
from tests.nn.distributions.oracles import all_finite, assert_frequencies, log_probs, measures, normal_density, samples


def loop_log_prob(action, mean, log_std):
    terms = zip(np.ravel(action).astype(float), np.ravel(mean).astype(float), np.ravel(log_std).astype(float), strict=True)
    return sum(-0.5 * ((a - m) / math.exp(s)) ** 2 - s - 0.5 * math.log(2 * math.pi) for a, m, s in terms)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("std_shape", ["same", "scalar"])
def test_log_prob_entropy_and_kl_match_a_plain_loop(shape, std_shape, getkey):
    mean, other_mean, action, log_std, other_log_std = 0.7 * jax.random.normal(getkey(), (5, *shape))
    if std_shape == "scalar":
        log_std, other_log_std = jnp.ravel(log_std)[0], jnp.ravel(other_log_std)[0]
    out = measures(Normal(mean, log_std), Normal(other_mean, other_log_std), action)
    s, t = (np.broadcast_to(x, shape).astype(float) for x in (log_std, other_log_std))
    np.testing.assert_allclose(out["log_prob"], loop_log_prob(action, mean, s), rtol=1e-5)
    np.testing.assert_allclose(out["entropy"], np.sum(s + 0.5 * math.log(2 * math.pi * math.e)), rtol=1e-5)
    gap = np.asarray(mean, float) - np.asarray(other_mean, float)
    np.testing.assert_allclose(out["kl"], np.sum(t - s + (np.exp(2 * s) + gap**2) / (2 * np.exp(2 * t)) - 0.5), rtol=1e-4)


def test_kl_is_the_integral_of_the_two_densities():
    pi, other = Normal(jnp.array([0.5]), jnp.array([-0.3])), Normal(jnp.array([-1.0]), jnp.array([0.4]))
    x = jnp.linspace(-8, 8, 4001)[:, None]
    log_p, log_q = (np.asarray(log_probs(d, x), np.float64) for d in (pi, other))
    width = 16 / 4000
    np.testing.assert_allclose((np.exp(log_p) * width).sum(), 1, atol=1e-4)
    np.testing.assert_allclose(pi.kl(other), (np.exp(log_p) * (log_p - log_q) * width).sum(), rtol=1e-3)


def test_samples_have_the_moments_and_the_frequencies_of_the_density(getkey):
    mean, std = np.array([[1.0, -2.0]]), np.exp([[0.5, -1.0]])
    drawn = np.asarray(samples(Normal(jnp.float32(mean), jnp.log(jnp.float32(std))), jax.random.split(getkey(), 16384)))
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.05)
    np.testing.assert_allclose(drawn.std(0), std, rtol=0.03)
    assert abs(np.corrcoef(drawn[:, 0, 0], drawn[:, 0, 1])[0, 1]) < 0.05
    unit = (drawn[:, 0, 0] - mean[0, 0]) / std[0, 0]
    edges = np.linspace(-2.5, 2.5, 21)
    inside = [math.erf(b / math.sqrt(2)) / 2 - math.erf(a / math.sqrt(2)) / 2 for a, b in itertools.pairwise(edges)]
    counts, tail = np.histogram(unit, edges)[0], 1 - sum(inside)
    assert_frequencies([*counts, len(unit) - counts.sum()], [*inside, tail])


@jax.jit
def gradient(pi, action):
    return jax.grad(lambda pi: pi.log_prob(action) + pi.entropy())(pi)


def test_log_std_is_clamped_wherever_it_is_used(getkey):
    key = getkey()
    for wild, held in ((-50.0, -5.0), (50.0, 2.0), (1e30, 2.0)):
        pi, same = Normal(jnp.zeros(2), jnp.full(2, wild)), Normal(jnp.zeros(2), jnp.full(2, held))
        action = jnp.array([0.01, -0.02])
        assert jax.tree.map(float, measures(pi, pi, action)) == jax.tree.map(float, measures(same, same, action))
        assert (samples(pi, key[None]) == samples(same, jax.random.clone(key)[None])).all()
        key = getkey()
        grad = gradient(pi, action)
        assert (grad.log_std == 0).all()
        assert all_finite(grad)


def test_gradients_of_log_prob_and_entropy_are_the_closed_forms():
    mean, log_std, action = jnp.array([0.5, -1.0]), jnp.array([-1.0, 0.7]), jnp.array([0.1, 2.0])
    grad = gradient(Normal(mean, log_std), action)
    unit = (action - mean) / jnp.exp(log_std)
    np.testing.assert_allclose(grad.mean, unit / jnp.exp(log_std), rtol=1e-5)
    np.testing.assert_allclose(grad.log_std, unit**2 - 1 + 1, rtol=1e-5)  # 1 of it from the entropy


def test_gradients_reach_mean_and_log_std_through_a_sample(getkey):
    key = getkey()
    grad = jax.grad(lambda pi: pi.sample(key).sum())(Normal(jnp.zeros(3), jnp.zeros(3)))
    noise = jax.random.normal(jax.random.clone(key), (3,))
    np.testing.assert_allclose(grad.mean, 1)
    np.testing.assert_allclose(grad.log_std, noise, rtol=1e-6)


def test_the_mode_is_the_densest_action():
    pi = Normal(jnp.array([0.5]), jnp.array([0.0]))
    x = np.linspace(-1, 2, 301, dtype=np.float32)
    assert x[np.argmax(log_probs(pi, x[:, None]))] == pytest.approx(0.5)
    np.testing.assert_allclose(np.exp(log_probs(pi, x[:, None])), normal_density(x, 0.5, 1.0), rtol=1e-5)
