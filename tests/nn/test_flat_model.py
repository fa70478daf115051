"""A model with one vector of parameters is the same model."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import rl4jax as rl
from rl4jax.nn.flat_model import FlatModel


def test_it_answers_alike_and_gives_its_parameters_back(getkey):
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=1)
    model = rl.nn.QNetwork(env, key=getkey(), hidden=(5, 3), dueling=True)
    packed, obs = rl.nn.pack(model), jax.random.normal(getkey(), (4,))
    flat = FlatModel(packed)
    np.testing.assert_array_equal(flat(obs), model(obs))
    assert flat.vector.shape == (sum(x.size for x in packed.params.values()),)
    again = flat.params_of(flat.vector)
    assert again.keys() == packed.params.keys()
    assert all((again[name] == packed.params[name]).all() for name in again)


def test_its_gradient_is_that_of_the_model_in_one_vector(getkey):
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=1)
    packed, obs = rl.nn.pack(rl.nn.QNetwork(env, key=getkey(), hidden=(5,))), jax.random.normal(getkey(), (4,))
    flat = rl.nn.pack(FlatModel(packed))
    grads = jax.grad(lambda params: (packed.with_params(params).model(obs) ** 2).sum())(packed.params)
    (vector,) = jax.grad(lambda params: (flat.with_params(params).model(obs) ** 2).sum())(flat.params).values()
    np.testing.assert_allclose(vector, ravel_pytree(grads)[0], rtol=1e-6)
    assert jnp.abs(vector).max() > 0


def test_a_model_without_floats_is_flat_already():
    config = rl.Linear(1, 2, 3)
    assert FlatModel(rl.nn.pack(config)).model == config


def test_a_packed_model_can_be_copied(getkey):
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=1)
    state = rl.ppo.init(rl.nn.ActorCritic(env, key=getkey()), env, rl.ppo.Config(), key=getkey())
    obs = jnp.ones(4)
    np.testing.assert_array_equal(copy.deepcopy(state).model(obs)[1], state.model(obs)[1])
