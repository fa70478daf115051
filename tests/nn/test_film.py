import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax.nn import FiLM, Linear


@pytest.mark.parametrize("shape", [(6,), (6, 4, 5)])
def test_features_pass_unchanged_at_first(shape, getkey):
    features, context = jax.random.normal(getkey(), shape), jax.random.normal(getkey(), (3,))
    np.testing.assert_array_equal(FiLM(3, 6)(features, context), features)


@pytest.mark.parametrize("shape", [(6,), (6, 4, 5)])
@pytest.mark.parametrize("wrap", [lambda f: f, eqx.filter_jit])
def test_it_matches_a_loop_over_channels(shape, wrap, getkey):
    film = eqx.tree_at(lambda f: f.linear, FiLM(3, 6), Linear(jax.random.normal(getkey(), (3, 12)), jax.random.normal(getkey(), (12,))))
    features, context = jax.random.normal(getkey(), shape), jax.random.normal(getkey(), (3,))
    weight, bias, wanted = np.asarray(film.linear.weight), np.asarray(film.linear.bias), np.array(features)
    for d in range(6):
        gamma = sum(weight[i, d] * context[i] for i in range(3)) + bias[d]
        beta = sum(weight[i, 6 + d] * context[i] for i in range(3)) + bias[6 + d]
        wanted[d] = (1 + gamma) * wanted[d] + beta
    np.testing.assert_allclose(wrap(film)(features, context), wanted, rtol=1e-5, atol=1e-5)


def test_it_learns_from_the_first_step_on(getkey):
    features, context = jax.random.normal(getkey(), (6,)), jax.random.normal(getkey(), (3,))
    grads = jax.grad(lambda film: (film(features, context) ** 2).sum())(FiLM(3, 6))
    wanted = np.concatenate([2 * features * features, 2 * features])
    np.testing.assert_allclose(grads.linear.bias, wanted, rtol=1e-5)
    np.testing.assert_allclose(grads.linear.weight, np.outer(context, wanted), rtol=1e-5)


def test_a_batch_by_mistake_is_refused():
    with pytest.raises(rl.ShapeError, match=re.escape("FiLM: features has shape (8, 6); it must be (6,) or (6, H, W), channels first.")):
        FiLM(3, 6)(jnp.zeros((8, 6)), jnp.zeros(3))
    with pytest.raises(rl.ShapeError, match=re.escape("FiLM: context has shape (4,); it must be (3,).")):
        FiLM(3, 6)(jnp.zeros(6), jnp.zeros(4))
    with pytest.raises(rl.ConfigError, match=re.escape("FiLM: context_dim = 0 must be a positive integer.")):
        FiLM(0, 6)
