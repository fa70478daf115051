import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rl4jax as rl
from rl4jax.nn import TwoHot
from tests.nn.distributions.oracles import all_finite, log_softmax

# Computed once with the reference implementation's formulas in NumPy: target -> weights by number of the bin, of 255.
REAL = {
    0.0: {127: 1.0}, 0.1: {127: 0.413688, 128: 0.586312}, 1.0: {131: 0.617329, 132: 0.382671}, -1.0: {122: 0.382671, 123: 0.617329},
    10.0: {142: 0.786963, 143: 0.213037}, -3.5: {117: 0.531368, 118: 0.468632}, 100.0: {156: 0.710529, 157: 0.289471},
    1000.0: {170: 0.138449, 171: 0.861551}, 1e9: {254: 1.0}, -1e9: {0: 1.0},
}  # fmt: skip
SYMLOG = {0.1: {127: 0.394780, 128: 0.605220}, 1.0: {131: 0.598515, 132: 0.401485}, 10.0: {142: 0.773365, 143: 0.226635}}
CASES = [("real", x, weights) for x, weights in REAL.items()] + [("symlog", x, weights) for x, weights in SYMLOG.items()]


@pytest.mark.parametrize(("space", "target", "weights"), CASES)
def test_golden_weights(space, target, weights):
    got = TwoHot(jnp.zeros(255), space=space).encode(jnp.float32(target))
    wanted = np.zeros(255)
    wanted[list(weights)] = list(weights.values())
    np.testing.assert_allclose(got, wanted, atol=3e-6)


def test_golden_bins():
    bins = TwoHot(jnp.zeros(255)).bins
    assert bins.shape == (255,)
    np.testing.assert_allclose(bins[0], -4.8516519e8, rtol=1e-7)
    np.testing.assert_allclose(bins[125:130], [-0.37020536, -0.17055772, 0.0, 0.17055772, 0.37020536], rtol=1e-6)
    np.testing.assert_allclose(np.diff(np.sign(bins) * np.log1p(np.abs(bins.astype(np.float64)))), 0.15748031, rtol=1e-5)
    np.testing.assert_allclose(TwoHot(jnp.zeros(5)).bins, [-4.85165194e8, -22025.4658, 0, 22025.4658, 4.85165194e8], rtol=1e-7)
    for n in (2, 3, 5, 64, 255):
        bins = TwoHot(jnp.zeros(n)).bins
        assert (bins + bins[::-1] == 0).all()
        assert (np.diff(bins) > 0).all()


@pytest.fixture
def as_users_compile():
    """With all optimizations: the short tests run without most of them."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.mark.usefixtures("as_users_compile")
@pytest.mark.parametrize("space", ["real", "symlog"])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, lambda f: lambda x: jax.vmap(f)(x[None])[0]], ids=["plain", "jit", "vmap"])
def test_equal_logits_expect_exactly_zero(space, wrap):
    for n in (2, 5, 63, 254, 255):
        assert wrap(lambda x: TwoHot(x, space=space).mean())(jnp.zeros(n)) == 0.0
        assert wrap(lambda x: TwoHot(x, space=space).mean())(jnp.full(n, 7.3)) == 0.0


def test_golden_cross_entropy_of_equal_logits():
    for target in (0.0, 0.1, -1000.0, 1e9):
        np.testing.assert_allclose(TwoHot(jnp.zeros(255)).loss(jnp.float32(target)), 5.5412635, rtol=1e-6)


def test_golden_means_tell_the_two_spaces_apart():
    logits = jnp.full(255, -1e9).at[jnp.array([137, 147])].set(0.0)
    np.testing.assert_allclose(TwoHot(logits).mean(), 13.0783349, rtol=1e-6)
    np.testing.assert_allclose(TwoHot(logits, space="symlog").mean(), 9.6143273, rtol=1e-6)


def by_hand(x, bins):
    """The weights of the bins in float64, by a loop."""
    weights = np.zeros(len(bins))
    x = min(max(x, bins[0]), bins[-1])
    i = max(i for i in range(len(bins)) if bins[i] <= x)
    if i == len(bins) - 1:
        weights[i] = 1.0
    else:
        weights[i + 1] = (x - bins[i]) / (bins[i + 1] - bins[i])
        weights[i] = 1 - weights[i + 1]
    return weights


@settings(max_examples=60, deadline=None)
@given(st.floats(-1e7, 1e7, width=32), st.sampled_from([2, 7, 20]), st.sampled_from([(-20.0, 20.0), (-3.0, 5.0), (0.0, 9.0)]))
def test_weights_and_log_prob_match_a_loop(target, n, ends):
    logits = jnp.sin(jnp.arange(n) * 1.7)
    pi = TwoHot(logits, *ends)
    grid = np.linspace(*ends, n)
    for space, scale, x in (
        ("real", np.sign(grid) * np.expm1(np.abs(grid)), target),
        ("symlog", grid, np.sign(target) * np.log1p(abs(target))),
    ):
        pi = TwoHot(logits, *ends, space=space)
        wanted = by_hand(x, scale)
        np.testing.assert_allclose(pi.encode(jnp.float32(target)), wanted, atol=2e-5)
        np.testing.assert_allclose(pi.log_prob(jnp.float32(target)), (wanted * log_softmax(logits)).sum(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("space", ["real", "symlog"])
def test_what_was_encoded_is_expected_again(space):
    for target in (0.0, 0.3, -1.0, 55.0, -4321.0, 1e6):
        weights = TwoHot(jnp.zeros(255), space=space).encode(jnp.float32(target))
        logits = jnp.where(weights > 0, jnp.log(jnp.where(weights > 0, weights, 1.0)), -1e9)
        pi = TwoHot(logits, space=space)
        np.testing.assert_allclose(pi.mean(), target, rtol=1e-4, atol=1e-5)
        assert abs(float(pi.mode()) - target) <= np.diff(pi.bins)[np.searchsorted(pi.bins, target) - 1]


def test_the_gradient_is_the_probability_minus_the_target_and_does_not_grow_with_it():
    logits = jnp.cos(jnp.arange(255.0))
    for target in (1e-3, 1.0, 1e6):
        got = jax.grad(lambda x, t=target: TwoHot(x).loss(jnp.float32(t)))(logits)
        np.testing.assert_allclose(got, np.exp(log_softmax(logits)) - np.asarray(TwoHot(logits).encode(jnp.float32(target))), atol=1e-6)
        assert np.linalg.norm(got) < math.sqrt(2)


def test_no_gradient_goes_into_the_target():
    pi = TwoHot(jnp.arange(255.0))
    assert jax.grad(pi.loss)(jnp.float32(3.3)) == 0
    assert jax.grad(pi.log_prob)(jnp.float32(3.3)) != 0


@pytest.mark.parametrize("space", ["real", "symlog"])
def test_values_and_gradients_are_finite(space):
    def everything(logits, target):
        pi = TwoHot(logits, space=space)
        return pi.mean() + pi.loss(target)

    both = jax.jit(jax.value_and_grad(everything, (0, 1)))
    for size in (0.0, 1.0, 1e9, 3e38):
        for target in (0.0, 1.0, -3e38, 3e38):
            assert all_finite(both(size * jnp.cos(jnp.arange(255.0)), jnp.float32(target))), (size, target)


def test_a_mean_is_learned_where_outcomes_are_wide():
    """Half of the outcomes are 1, half are 1000: the mean is learned in real numbers, and underestimated by symlogs."""

    def loss(logits):
        return 0.5 * (TwoHot(logits).loss(jnp.float32(1.0)) + TwoHot(logits).loss(jnp.float32(1000.0)))

    descend = jax.jit(lambda logits: jax.lax.fori_loop(0, 500, lambda _, x: x - 2.0 * jax.grad(loss)(x), logits))
    logits = descend(jnp.zeros(255))
    np.testing.assert_allclose(TwoHot(logits).mean(), 500.5, rtol=0.1)
    assert TwoHot(logits, space="symlog").mean() < 100


ERRORS = {
    "a batch": (lambda: TwoHot(jnp.zeros((4, 255))), rl.ShapeError, "TwoHot.logits has shape (4, 255); it must have one axis."),
    "one bin": (lambda: TwoHot(jnp.zeros(1)), rl.ShapeError, "TwoHot.logits has shape (1,); it must have at least two, one for each bin."),
    "order": (lambda: TwoHot(jnp.zeros(9), 2.0, 1.0), rl.ConfigError, "TwoHot: (low, high) = (2.0, 1.0) must be two numbers, the lower"),
    "too far": (lambda: TwoHot(jnp.zeros(9), 0.0, 99.0), rl.ConfigError, "must be symlogs within (-88, 88), which is all of float32."),
}  # fmt: skip


@pytest.mark.parametrize(("mistake", "error", "said"), ERRORS.values(), ids=ERRORS)
def test_a_mistake_is_answered_with_the_rule(mistake, error, said):
    with pytest.raises(error, match=re.escape(said)):
        mistake()
