"""A recurrent model that goes through whole columns says the same as step by step."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax.collect.revisit import Steps, reconsider, revisit
from rl4jax.nn.model import Sequential
from tests.algo.small import Loop, Mixed


class StepByStep(eqx.Module):
    """A recurrent model as users write them: it can only be called."""

    model: rl.nn.ActorCritic

    def initial_carry(self):
        return self.model.initial_carry()

    def __call__(self, obs, carry):
        return self.model(obs, carry)


CASES = {
    "lstm": (Mixed(), {"core": "lstm"}),
    "gru, one trunk": (Mixed(), {"core": "gru", "shared": True}),
    "truncations": (Loop(max_steps=3), {"core": "gru"}),
}


@functools.cache
def rollout_of(name):
    """A model that has learned nothing, and a rollout that begins in the middle of episodes."""
    env, network = rl.VecEnv(CASES[name][0], num_envs=3), CASES[name][1]
    model_key, begin_key, first_key, second_key = jax.random.split(jax.random.key(0), 4)
    model = rl.nn.ActorCritic(env, key=model_key, hidden=(8,), **network)
    playing = rl.collect.begin(model, env, key=begin_key)
    playing, _ = rl.collect.unroll(model, env, playing, 8, key=first_key)
    return model, rl.collect.unroll(model, env, playing, 8, key=second_key)[1]


def differences(said, wanted):
    return [float(jnp.abs(a - b).max()) for a, b in zip(jax.tree.leaves(said), jax.tree.leaves(wanted), strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_whole_columns_are_their_steps(name):
    model, rollout = rollout_of(name)
    assert rollout.is_first[1:].any()
    assert any((x != 0).any() for x in jax.tree.leaves(rollout.carry))
    assert isinstance(model, Sequential)
    assert not isinstance(StepByStep(model), Sequential)
    said, wanted = (eqx.filter_jit(revisit)(m, rollout) for m in (model, StepByStep(model)))
    assert max(differences(said, wanted)) < 1e-5
    np.testing.assert_allclose(said[0].log_prob, rollout.log_prob, atol=1e-5)
    np.testing.assert_allclose(said[1], rollout.next_value, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_whole_columns_are_those_of_the_steps(name):
    model, rollout = rollout_of(name)
    steps = Steps(rollout.obs, rollout.action, rollout.mask, rollout.is_first)

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(model, wrap):
        said = reconsider(wrap(model), steps, rollout.carry)
        return (said.log_prob * said.value + said.entropy).mean()

    found, wanted = gradient(model, lambda m: m), gradient(model, StepByStep)
    assert max(differences(found, wanted)) < 1e-5
    assert all((x != 0).any() for x in jax.tree.leaves(wanted.trunks))
