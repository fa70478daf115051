"""Evaluation: whole episodes, as many from each environment, raw returns."""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax.nn.model_check import check_model
from tests.algo.small import Loop


class Push(eqx.Module):
    """Always prefers pushing right."""

    def __call__(self, obs):
        return rl.nn.Categorical(jnp.array([0.0, 1.0])), jnp.zeros(())


class Short(rl.AbstractEnv):
    """Episodes of random length whose return is their length: averaging those that finish first would give too little."""

    observation_space = property(lambda self: Loop().observation_space)
    action_space = property(lambda self: Loop().action_space)

    def reset(self, key):
        return (jnp.int32(0), jax.random.choice(key, jnp.array([1, 99]))), jnp.zeros(1)

    def step(self, state, action, key):
        t, length = state
        return (t + 1, length), rl.Step(jnp.zeros(1), jnp.float32(1), t + 1 >= length, jnp.array(False))


def test_each_environment_plays_its_share_so_short_episodes_are_not_favoured(getkey):
    result = rl.evaluate(Push(), rl.VecEnv(Short(), num_envs=50), 2000, key=getkey())
    assert result.returns.shape == (2000,)
    assert abs(float(result.mean) - 50) < 5, "half of the episodes are long"
    assert (result.returns == result.lengths).all()


def test_both_kinds_of_environment_evaluate_alike(getkey):
    returns = []
    for env in (rl.VecEnv(rl.envs.CartPole(), num_envs=4), rl.GymVecEnv("CartPole-v1", num_envs=4)):
        result = rl.evaluate(Push(), env, 10, key=getkey())
        assert result.returns.shape == (12,), "rounded up to the same number for each"
        returns.append(np.asarray(result.returns))
    assert all(r.min() >= 8 and r.max() <= 12 for r in returns), "pushing one way lasts about ten steps"


def test_evaluation_is_greedy_or_sampled(getkey):
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=8)
    greedy = rl.evaluate(Push(), env, 64, key=getkey())
    sampled = rl.evaluate(Push(), env, 64, key=getkey(), greedy=False)
    assert float(sampled.mean) > float(greedy.mean) + 2, "chance balances better than pushing one way"
    host = rl.evaluate(Push(), rl.GymVecEnv("CartPole-v1", num_envs=2), 4, key=getkey(), greedy=False)
    assert (host.lengths > 0).all()


def test_evaluation_runs_inside_jit_and_vmap():
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=2)
    keys = jax.random.split(jax.random.key(0), 3)
    with jax.debug_key_reuse(False):
        means = jax.jit(jax.vmap(lambda key: rl.evaluate(Push(), env, 4, key=key).mean))(keys)
    singles = [float(rl.evaluate(Push(), env, 4, key=key).mean) for key in keys]
    np.testing.assert_allclose(means, singles)


def test_episodes_that_never_end_are_an_error_that_names_the_cure(getkey):
    env = rl.VecEnv(Loop(max_steps=1000), num_envs=2)
    with pytest.raises(rl.EnvError, match=r"2 of 2 episodes did not end within max_steps = 50 .* rl.TimeLimit"):
        rl.evaluate(Push(), env, 2, key=getkey(), max_steps=50)
    with pytest.raises(rl.ConfigError, match="num_episodes = 0 must be a positive integer"):
        rl.evaluate(Push(), env, 0, key=getkey())


class NotANumber(Short):
    def step(self, state, action, key):
        state, step = super().step(state, action, key)
        return state, step._replace(reward=jnp.float32(jnp.nan))


def test_what_cannot_be_evaluated_is_said(getkey):
    env = rl.VecEnv(NotANumber(), num_envs=2)
    with pytest.raises(rl.EnvError, match=r"2 of 2 returns are not finite.*rl.check_env"):
        rl.evaluate(Push(), env, 2, key=getkey())
    cfg = rl.ppo.Config(num_steps=8)
    state = rl.ppo.init(rl.nn.ActorCritic(env, key=getkey(), hidden=(8,)), env, cfg, key=getkey())
    with pytest.raises(TypeError, match=r"model is a State; it must be an eqx.Module.*Give state.policy") as caught:
        inspect.unwrap(check_model)(state, env.single_observation_space, env.single_action_space)
    assert len(str(caught.value)) < 200
