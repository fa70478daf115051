"""PPO on the five probes, with every kind of action: what fails names the broken part."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax import ppo
from tests.algo.small import PROBES, AnyOf, Loop, started

GAMMA = 0.5


@pytest.mark.parametrize("actions", ["discrete", "multi_discrete", "continuous", "composite"])
@pytest.mark.parametrize("names", [("ProbeConstant", "ProbeObservation", "ProbeDiscount"), ("ProbeAction", "ProbeContext")])
def test_ppo_learns_the_known_value_and_the_right_action(names, actions):
    cfg = ppo.Config(num_steps=16, lr=rl.Linear(1e-2, 1e-3, 150), gamma=GAMMA, ent_coef=0.0, update_epochs=4, num_minibatches=2)
    probes = tuple(rl.make(name, actions=actions) for name in names)
    for number, name in enumerate(names):
        env = rl.VecEnv(AnyOf(jnp.int32(number), probes), num_envs=16)
        state, _ = ppo.train(started(env, cfg), env, cfg, num_updates=150)
        seen = jnp.array(PROBES.get(name, [[0.0]]))
        value = jax.vmap(lambda obs, policy=state.policy: policy(obs)[1])(seen)
        np.testing.assert_allclose(value, probes[number].optimal_value(seen, GAMMA), atol=0.1, err_msg=name)
        if name != "ProbeObservation":  # whose returns are what was seen
            played = rl.evaluate(state.policy, env, 64, key=jax.random.key(3))
            assert float(played.mean) == 1.0, f"{name}: the greedy policy is right everywhere"


def test_a_truncated_episode_is_bootstrapped():
    gamma = 0.9
    env = rl.VecEnv(Loop(max_steps=10), num_envs=4)
    cfg = ppo.Config(num_steps=20, lr=3e-3, gamma=gamma, clip_vloss=False, num_minibatches=1, max_grad_norm=0.0, update_epochs=10)
    state, _ = ppo.train(started(env, cfg), env, cfg, num_updates=200)
    value = float(state.policy(jnp.ones(1))[1])
    watched = (1 - gamma**10) / (1 - gamma)
    assert abs(value - 1 / (1 - gamma)) < 0.3 < 1 / (1 - gamma) - watched, "10, not the 6.5 of ten steps"
