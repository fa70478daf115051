import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax.nn.distributions import MultiCategorical
from tests.nn.distributions.oracles import all_finite, assert_frequencies, entropy, gradients, kl, log_probs, log_softmax, measures, samples

SHAPES = [((3, 2, 4), None), ((3, 3, 3), None), ((2, 3, 2, 2), (2, 2)), ((3,), ())]


def two(nvec, shape, key):
    """Two random distributions over the same actions, and a mask that forbids the last choice of each head and the first of the first."""
    first, second = 2 * jax.random.normal(key, (2, sum(nvec)))
    mask = np.ones(sum(nvec), bool)
    mask[np.cumsum(nvec) - 1] = False
    mask[0] = nvec[0] < 3
    return MultiCategorical(first, nvec, shape), MultiCategorical(second, nvec, shape), mask


def heads(logits, mask, nvec):
    """Log-probabilities of each head in float64."""
    cuts = np.cumsum(nvec)[:-1]
    return [log_softmax(x, m) for x, m in zip(np.split(np.asarray(logits), cuts), np.split(mask, cuts), strict=True)]


def every_action(pi):
    actions = np.array(list(itertools.product(*map(range, pi.nvec))), np.int32)
    return actions, jnp.asarray(actions.reshape(len(actions), *pi.shape))


@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize(("nvec", "shape"), SHAPES)
def test_each_head_has_its_own_softmax(nvec, shape, with_mask, getkey):
    pi, other, mask = two(nvec, shape, getkey())
    mask = mask if with_mask else np.ones(sum(nvec), bool)
    wanted, wanted_other = heads(pi.logits, mask, nvec), heads(other.logits, mask, nvec)
    if with_mask:
        pi, other = pi.masked(mask), other.masked(mask)
    flat, actions = every_action(pi)
    probs = np.exp(log_probs(pi, actions))
    np.testing.assert_allclose(probs, [math.exp(sum(head[i] for head, i in zip(wanted, a, strict=True))) for a in flat], atol=1e-6)
    np.testing.assert_allclose(probs.sum(), 1, atol=1e-5)
    out = measures(pi, other, actions[0])
    np.testing.assert_allclose(out["entropy"], sum(map(entropy, wanted)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out["kl"], sum(map(kl, wanted, wanted_other)), rtol=1e-4, atol=1e-6)
    assert np.ravel(pi.mode()).tolist() == [int(np.argmax(head)) for head in wanted]
    assert pi.mode().shape == pi.shape


@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize(("nvec", "shape"), SHAPES)
def test_frequencies_of_whole_actions_match_the_probabilities(nvec, shape, with_mask, getkey):
    pi, _, mask = two(nvec, shape, getkey())
    pi = MultiCategorical(pi.logits / 4, nvec, shape).masked(mask if with_mask else None)
    drawn = np.asarray(samples(pi, jax.random.split(getkey(), 16384)))
    assert (drawn.shape[1:], drawn.dtype) == (pi.shape, np.int32)
    index = np.ravel_multi_index(tuple(drawn.reshape(len(drawn), -1).T), nvec)
    assert_frequencies(np.bincount(index, minlength=math.prod(nvec)), np.exp(log_probs(pi, every_action(pi)[1])))


def test_uniform_entropy_is_the_sum_of_the_logarithms():
    np.testing.assert_allclose(MultiCategorical(jnp.zeros(9), (3, 2, 4)).entropy(), math.log(3 * 2 * 4), rtol=1e-6)


@pytest.mark.parametrize("nvec", [(3, 2), (2, 2)])
def test_extreme_logits_give_finite_values_and_gradients_under_every_mask(nvec, getkey):
    masks = np.array(list(itertools.product([False, True], repeat=sum(nvec))))  # those that allow a head nothing included
    allows = np.array([all(part.any() for part in np.split(mask, np.cumsum(nvec)[:-1])) for mask in masks])

    actions = jnp.array(list(itertools.product(*map(range, nvec))))

    def everything(p, q, mask, key):
        def build(logits):
            return MultiCategorical(logits, nvec)

        def values(action):
            return measures(build(p).masked(mask), build(q).masked(mask), action), gradients(build, p, q, mask, action)

        return jax.vmap(values)(actions), build(p).masked(mask).sample(key), build(p).masked(mask).mode()

    everything = jax.jit(jax.vmap(everything))
    for extreme in (3e38, 1e30, 1.0):
        p, q = extreme * jax.random.choice(getkey(), jnp.array([-1.0, 0.0, 1.0]), (2, len(masks), sum(nvec)))
        values, drawn, modes = everything(p, q, masks, jax.random.split(getkey(), len(masks)))
        assert all_finite(values)
        for chosen in (np.asarray(drawn), np.asarray(modes)):
            allowed = masks[np.arange(len(masks))[:, None], chosen + np.cumsum((0, *nvec[:-1]))].all(-1)
            assert allowed[allows].all()
            assert (chosen < np.array(nvec)).all()


def test_the_gradient_is_one_hot_minus_probabilities_in_each_head(getkey):
    nvec = (3, 2)
    pi, _, _ = two(nvec, None, getkey())
    probs = np.exp(np.concatenate(heads(pi.logits, np.ones(5, bool), nvec)))
    got = jax.grad(lambda x: MultiCategorical(x, nvec).log_prob(jnp.array([2, 0])))(pi.logits)
    np.testing.assert_allclose(got, np.array([0, 0, 1, 1, 0]) - probs, atol=1e-6)


def test_a_choice_that_a_head_does_not_have_is_impossible():
    pi = MultiCategorical(jnp.zeros(5), (3, 2))
    assert (np.exp(log_probs(pi, jnp.array([[0, 2], [3, 0], [-1, 0]]))) == 0).all()


def test_many_equal_heads_make_no_longer_program():
    def length(num_heads):
        return len(jax.make_jaxpr(lambda x: MultiCategorical(x, (5,) * num_heads).entropy())(jnp.zeros(5 * num_heads)).eqns)

    assert length(200) == length(2)
