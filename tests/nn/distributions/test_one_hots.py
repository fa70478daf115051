"""Several choices at once as one-hot vectors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax.nn.distributions.one_hots import OneHots

ROW = jnp.array([[0.0, 1.0, 2.0, 3.0]])
ONE = jnp.array([[1.0, 0.0, 0.0, 0.0]])
SURE = jnp.array([[1e9, 0.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("p", "q", "unimix", "kl"),
    [
        (ONE, jnp.zeros((1, 4)), 0.0, 0.1179929),
        (ONE, jnp.zeros((1, 4)), 0.01, 0.1157494),
        (ROW, ROW[:, ::-1], 0.0, 1.9853055),
        (ROW, ROW[:, ::-1], 0.01, 1.9192328),
        (SURE, jnp.zeros((1, 4)), 0.0, 1.3862944),
        (SURE, jnp.zeros((1, 4)), 0.01, 1.3338866),
        (SURE, SURE[:, ::-1], 0.01, 5.924097),
    ],
)
def test_divergences_are_those_of_the_fact_sheet(p, q, unimix, kl):
    assert float(OneHots(p, unimix).kl(OneHots(q, unimix))) == pytest.approx(kl, rel=2e-6)
    twice = [jnp.concatenate([x, x]) for x in (p, q)]
    assert float(OneHots(twice[0], unimix).kl(OneHots(twice[1], unimix))) == pytest.approx(2 * kl, rel=2e-6)


@pytest.mark.parametrize(("classes", "kl"), [(16, 7.294656), (32, 7.980560), (64, 8.666619)])
def test_no_divergence_is_larger_than_that_of_two_sure_choices(classes, kl):
    sure, other = (OneHots(1e9 * jnp.eye(classes)[i][None]) for i in (0, 1))
    assert float(sure.kl(other)) == pytest.approx(kl, rel=2e-6)
    many = OneHots(jnp.repeat(sure.logits, 32, 0)).kl(OneHots(jnp.repeat(other.logits, 32, 0)))
    assert float(many) == pytest.approx(32 * kl, rel=2e-6)


def test_every_choice_keeps_its_uniform_share():
    np.testing.assert_allclose(jnp.exp(OneHots(SURE).log_probs), [[0.9925, 0.0025, 0.0025, 0.0025]], rtol=1e-5)


def test_samples_are_one_hot_and_as_frequent_as_they_should_be():
    pi = OneHots(jnp.concatenate([ROW, ONE]), 0.1)
    samples = jax.vmap(pi.sample)(jax.random.split(jax.random.key(0), 20_000))
    assert set(np.unique(np.round(samples, 6))) == {0.0, 1.0}
    np.testing.assert_allclose(samples.sum(-1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(samples.mean(0), jnp.exp(pi.log_probs), atol=0.015)


def test_the_gradient_goes_straight_through_the_choice():
    noise, weight = jax.random.gumbel(jax.random.key(1), (2, 4)), jnp.arange(8.0).reshape(2, 4)
    logits = jnp.concatenate([ROW, ONE])
    through = jax.grad(lambda x: (weight * OneHots(x).sample_from(noise)).sum())(logits)
    by_probs = jax.grad(lambda x: (weight * jnp.exp(OneHots(x).log_probs)).sum())(logits)
    np.testing.assert_allclose(through, by_probs, rtol=1e-6)


def test_wrong_shapes():
    with pytest.raises(rl.ShapeError, match=r"OneHots.logits has shape \(4,\); it must be \[G, K\]"):
        OneHots(jnp.zeros(4))
    with pytest.raises(rl.ShapeError, match=r"other has logits \(1, 3\), self \(1, 4\)"):
        OneHots(ROW).kl(OneHots(ROW[:, :3]))
