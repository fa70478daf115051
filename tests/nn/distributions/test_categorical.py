import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from rl4jax.nn.distributions import Categorical, MultiCategorical
from tests.nn.distributions.oracles import all_finite, assert_frequencies, entropy, gradients, kl, log_probs, log_softmax, measures, samples

logits = st.lists(st.floats(-20, 20, width=32), min_size=4, max_size=4).map(np.float32).map(jnp.asarray)
masks = st.lists(st.booleans(), min_size=4, max_size=4).filter(any).map(np.array)


def every_mask(n):
    return np.array([mask for mask in itertools.product([False, True], repeat=n) if any(mask)])


@jax.jit
def masked(logits, mask):
    return Categorical(logits).masked(mask)


@settings(max_examples=60, deadline=None)
@given(logits, logits, masks)
def test_log_prob_entropy_and_kl_match_a_plain_loop(p, q, mask):
    wanted_p, wanted_q = log_softmax(p, mask), log_softmax(q, mask)
    pi, other = masked(p, mask), masked(q, mask)
    got = log_probs(pi, jnp.arange(4))
    np.testing.assert_allclose(got[mask], wanted_p[mask], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.exp(got).sum(), 1, atol=1e-5)
    assert (np.exp(got)[~mask] == 0).all()
    out = measures(pi, other, jnp.int32(0))
    np.testing.assert_allclose(out["entropy"], entropy(wanted_p), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(out["kl"], kl(wanted_p, wanted_q), rtol=1e-5, atol=1e-5)
    assert mask[pi.mode()]
    assert p[pi.mode()] >= p[mask].max() - 1e-5


@settings(max_examples=40, deadline=None)
@given(logits, logits, masks, st.integers(0, 3))
def test_gradients_are_the_closed_forms(p, q, mask, action):
    log_p, log_q = log_softmax(p, mask), log_softmax(q, mask)
    prob, other_prob = np.exp(log_p), np.exp(log_q)
    finite_p, finite_q = np.where(mask, log_p, 0), np.where(mask, log_q, 0)
    got = gradients(Categorical, p, q, mask, jnp.int32(action))
    onehot = np.eye(4)[action] * mask[action]  # a forbidden logit has no gradient
    np.testing.assert_allclose(got["log_prob"][0], onehot - prob, atol=1e-5)
    np.testing.assert_allclose(got["entropy"][0], -prob * (finite_p + entropy(log_p)), atol=1e-4)
    np.testing.assert_allclose(got["kl"][0], prob * (finite_p - finite_q - kl(log_p, log_q)), atol=1e-4)
    np.testing.assert_allclose(got["kl"][1], other_prob - prob, atol=1e-5)


def test_extreme_logits_give_finite_values_and_gradients_under_every_mask():
    extremes = np.float32(list(itertools.product([-3e38, -1e30, 0, 1, 1e30, 3e38], repeat=3)))
    cases = list(itertools.product(range(len(extremes)), every_mask(3)))
    p = jnp.asarray([extremes[i] for i, _ in cases])
    mask = np.array([mask for _, mask in cases])

    def everything(p, mask, key):
        def values(q, action):
            bare = measures(Categorical(p), Categorical(q), action)
            return bare, measures(masked(p, mask), masked(q, mask), action), gradients(Categorical, p, q, mask, action)

        pi, actions = masked(p, mask), jnp.arange(3)
        both = [jax.vmap(values, (None, 0))(q, actions) for q in (jnp.flip(p), jnp.zeros(3))]
        return both, log_probs(pi, actions), pi.mode(), pi.sample(key)

    values, log_prob, modes, drawn = jax.jit(jax.vmap(everything))(p, mask, jax.random.split(jax.random.key(0), len(p)))
    assert all_finite(values)
    probs, modes, drawn = np.exp(log_prob), np.asarray(modes), np.asarray(drawn)
    np.testing.assert_allclose(probs.sum(-1), 1, atol=1e-6)
    assert (probs[~mask] == 0).all()
    assert mask[np.arange(len(p)), modes].all()
    assert mask[np.arange(len(p)), drawn].all()


@pytest.mark.parametrize("mask", [None, *every_mask(4)], ids=str)
def test_frequencies_match_the_probabilities(mask, getkey):
    pi = Categorical(jnp.array([0.5, -1.0, 0.0, 2.0])).masked(mask)
    counts = np.bincount(samples(pi, jax.random.split(getkey(), 8192)), minlength=4)
    assert_frequencies(counts, np.exp(log_probs(pi, jnp.arange(4))))


def test_equal_logits_are_drawn_equally_however_large_they_are(getkey):
    for size in (1e6, 1e30, -1e30):
        counts = np.bincount(samples(Categorical(jnp.full(4, size)), jax.random.split(getkey(), 8192)), minlength=4)
        assert_frequencies(counts, np.full(4, 0.25))


def test_a_mask_that_allows_nothing_gives_the_uniform_distribution():
    p, nothing = jnp.array([1.0, 2.0, 1e30, -1e30]), np.zeros(4, bool)
    np.testing.assert_allclose(np.exp(log_probs(masked(p, nothing), jnp.arange(4))), 0.25)
    assert all_finite(gradients(Categorical, p, -p, nothing, jnp.int32(1)))


def test_masks_add_up():
    first, second = np.array([1, 1, 0, 1], bool), np.array([0, 1, 1, 1], bool)
    for p in (jnp.array([0.0, 1.0, 5.0, 2.0]), jnp.array([1e30, -1e30, 0.0, -1e30])):
        both = masked(p, first & second)
        twice = Categorical(p).masked(first).masked(second)
        np.testing.assert_allclose(np.exp(log_probs(twice, jnp.arange(4))), np.exp(log_probs(both, jnp.arange(4))), rtol=1e-5)


def test_a_choice_that_does_not_exist_is_impossible():
    pi = Categorical(jnp.zeros(4))
    assert (np.exp(log_probs(pi, jnp.array([-1, 4]))) == 0).all()


def test_uniform_entropy_is_the_logarithm_of_the_number_of_choices():
    np.testing.assert_allclose(Categorical(jnp.full(7, 3.0)).entropy(), np.log(7), rtol=1e-6)


def test_the_gradient_of_log_prob_has_no_scatter():
    program = str(jax.make_jaxpr(jax.grad(lambda x: Categorical(x).log_prob(jnp.int32(1))))(jnp.zeros(4)))
    assert "scatter" not in program
    assert "gather" not in program


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_half_precision_logits_can_be_masked(dtype):
    logits, mask = jnp.array([1.0, 5.0, 2.0], dtype), jnp.array([True, False, True])
    for pi in (Categorical(logits).masked(mask), MultiCategorical(logits, (3,)).masked(mask)):
        assert pi.entropy() == pytest.approx(float(Categorical(jnp.array([1.0, 2.0])).entropy()), abs=1e-6)
        assert int(pi.mode().reshape(())) == 2
