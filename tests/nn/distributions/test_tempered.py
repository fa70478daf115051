"""A temperature raises a distribution to the power of its inverse."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
import rl4jax.nn.distributions as d
from rl4jax.nn.distributions.epsilon_greedy import EpsilonGreedy
from tests.nn.distributions.oracles import all_finite, log_probs, log_softmax, measures, samples
from tests.nn.distributions.test_distributions import ALL

SQUASHED = {"TanhNormal", "Composite tuple"}  # whose power is that of u, before it is squashed


@jax.jit
def tempered_log_probs(pi, temperature, actions):
    return log_probs(pi.tempered(temperature), actions)


@ALL
def test_a_temperature_of_one_changes_nothing(build, size, getkey):
    pi = build(jax.random.normal(getkey(), (size,)))
    drawn = samples(pi, jax.random.split(getkey(), 16))
    np.testing.assert_allclose(tempered_log_probs(pi, 1.0, drawn), log_probs(pi, drawn), rtol=1e-6, atol=1e-6)


@ALL
@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_ratios_of_probabilities_are_raised_to_the_inverse_temperature(build, size, temperature, getkey, request):
    pi = build(0.5 * jax.random.normal(getkey(), (size,)))
    drawn = samples(pi, jax.random.split(getkey(), 64))
    plain, flat = (np.asarray(x, np.float64) for x in (log_probs(pi, drawn), tempered_log_probs(pi, temperature, drawn)))
    squashed = request.node.callspec.id.split("-")[-1] in SQUASHED
    if squashed:  # the slope of the squashing belongs to both densities and is not raised
        slope = log_slope(build, size, drawn)
        plain, flat = plain + slope, flat + slope
    np.testing.assert_allclose(flat - flat[0], (plain - plain[0]) / temperature, atol=2e-4)


def log_slope(build, size, drawn):
    """log |da/du| of the squashed parts, in NumPy."""
    pi = build(jnp.zeros(size))
    parts = [(pi, drawn)] if isinstance(pi, d.TanhNormal) else [(pi.parts[0], drawn[0])]
    total = 0.0
    for part, action in parts:
        low, high = np.float64(part.low), np.float64(part.high)
        unit = (np.asarray(action, np.float64) - (low + high) / 2) / ((high - low) / 2)
        total = total + np.log((1 - unit**2) * (high - low) / 2).sum(-1)
    return total


@ALL
def test_the_mode_stays(build, size, getkey):
    pi = build(jax.random.normal(getkey(), (size,)))
    for temperature in (0.1, 10.0):
        jax.tree.map(np.testing.assert_array_equal, pi.tempered(temperature).mode(), pi.mode())


def test_great_heat_is_uniform_over_what_is_allowed_and_great_cold_is_the_mode():
    pi = d.Categorical(jnp.array([0.0, 3.0, 1.0, -1.0])).masked(np.array([True, False, True, True]))
    np.testing.assert_allclose(np.exp(log_probs(pi.tempered(1e6), jnp.arange(4))), [1 / 3, 0, 1 / 3, 1 / 3], atol=1e-5)
    np.testing.assert_allclose(np.exp(log_probs(pi.tempered(1e-3), jnp.arange(4))), [0, 0, 1, 0], atol=1e-6)


def test_choices_match_a_softmax_of_divided_logits():
    logits = np.array([0.3, -2.0, 1.5, 0.0])
    for temperature in (0.1, 1.0, 7.0):
        got = log_probs(d.Categorical(jnp.asarray(logits, jnp.float32)).tempered(temperature), jnp.arange(4))
        np.testing.assert_allclose(got, log_softmax(logits / temperature), atol=1e-4)


def test_a_normal_has_its_variance_times_the_temperature():
    pi = d.Normal(jnp.array([1.0, -2.0]), jnp.array([0.5, -0.5])).tempered(4.0)
    np.testing.assert_allclose(jnp.exp(pi.log_std), 2 * np.exp([0.5, -0.5]), rtol=1e-6)
    wide = d.Normal(jnp.zeros(1), jnp.float32(30.0)).tempered(0.25)
    np.testing.assert_allclose(wide.log_std, 2.0 - np.log(2.0), rtol=1e-6, err_msg="the clamped spread is tempered, not the raw one")


@pytest.mark.parametrize("temperature", [1e-3, 1.0, 10.0, 1e6])
def test_masked_choices_stay_forbidden_at_every_temperature(temperature):
    mask = np.array([True, False, True, True, False])
    single = d.Categorical(jnp.array([0.0, 50.0, 1.0, -1.0, 0.5])).masked(mask)
    assert (np.exp(log_probs(single.tempered(temperature), jnp.arange(5)))[~mask] == 0).all()
    heads = d.MultiCategorical(jnp.array([0.0, 50.0, 1.0, -1.0, 0.5]), (3, 2)).masked(mask)
    pairs = jnp.array([(i, j) for i in range(3) for j in range(2)])
    probs = np.exp(log_probs(heads.tempered(temperature), pairs)).reshape(3, 2)
    assert (probs[1] == 0).all()
    assert (probs[:, 1] == 0).all()
    np.testing.assert_allclose(probs.sum(), 1, rtol=1e-5)
    both = d.Composite({"a": single, "b": heads}).tempered(temperature)
    assert float(both.log_prob({"a": jnp.int32(1), "b": jnp.array([0, 0])})) < -1e8


def test_extreme_logits_and_temperatures_give_finite_values_and_gradients():
    def measure(logits, temperature, mask):
        pi, other = (d.Categorical(x).masked(mask).tempered(temperature) for x in (logits, jnp.flip(logits)))
        return sum(measures(pi, other, jnp.int32(0)).values())

    both = jax.jit(jax.value_and_grad(measure, (0, 1)))
    for size in (1.0, 1e9, 3e38):
        for temperature in (1e-3, 1.0, 1e3):
            for mask in ([True, True, True], [False, True, True], [False, False, True]):
                assert all_finite(both(size * jnp.array([1.0, -1.0, 0.5]), temperature, np.array(mask))), (size, temperature, mask)


def test_the_gradient_is_divided_by_the_temperature():
    logits, temperature = jnp.array([0.3, -2.0, 1.5]), 4.0
    got = jax.grad(lambda x: d.Categorical(x).tempered(temperature).log_prob(jnp.int32(1)))(logits)
    np.testing.assert_allclose(got, (np.array([0, 1, 0]) - np.exp(log_softmax(np.asarray(logits) / temperature))) / temperature, atol=1e-6)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan")])
def test_a_temperature_must_be_positive(temperature):
    for pi in (d.Categorical(jnp.zeros(2)), d.MultiCategorical(jnp.zeros(2), (2,)), d.Normal(jnp.zeros(1), jnp.zeros(1))):
        said = f"{type(pi).__name__}.tempered: temperature = {temperature!r} must be a positive number."
        with pytest.raises(rl.ConfigError, match=re.escape(said)):
            pi.tempered(temperature)


def test_the_random_share_of_epsilon_greedy_is_tempered_too():
    pi = EpsilonGreedy(jnp.array([1.0, 3.0, 2.0]), jnp.array(0.3), jnp.array([True, True, False]))
    got = np.exp(log_probs(pi.tempered(2.0), jnp.arange(3)))
    wanted = np.sqrt([0.15, 0.85, 0.0])
    np.testing.assert_allclose(got, wanted / wanted.sum(), rtol=1e-5)


def test_a_nan_is_not_made_uniform():
    broken = d.Categorical(jnp.array([jnp.nan, 1.0, 2.0])).tempered(2.0)
    assert bool(jnp.isnan(broken.log_prob(jnp.int32(1))))
