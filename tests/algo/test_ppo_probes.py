"""PPO on the five probes, with every kind of action: what fails names the broken part."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax import ppo
from tests.algo.small import Loop, started

GAMMA = 0.5
PROBES = ["ProbeConstant", "ProbeObservation", "ProbeDiscount", "ProbeAction", "ProbeContext"]


@pytest.mark.parametrize("actions", ["discrete", "multi_discrete", "continuous", "composite"])
@pytest.mark.parametrize("probe", PROBES)
def test_ppo_learns_the_known_value_and_the_right_action(probe, actions):
    env = rl.VecEnv(rl.make(probe, actions=actions), num_envs=16)
    cfg = ppo.Config(num_steps=16, lr=rl.Linear(1e-2, 1e-3, 150), gamma=GAMMA, ent_coef=0.0, update_epochs=4, num_minibatches=2)
    state, _ = ppo.train(started(env, cfg), env, cfg, num_updates=150)

    seen = jnp.array(
        {"ProbeObservation": [[-1.0], [1.0]], "ProbeContext": [[-1.0], [1.0]], "ProbeDiscount": [[0.0], [1.0]]}.get(probe, [[0.0]])
    )
    value = jax.vmap(lambda obs: state.policy(obs)[1])(seen)
    best = env.env.optimal_value(seen, GAMMA)
    np.testing.assert_allclose(value, best, atol=0.1)
    played = rl.evaluate(state.policy, env, 64, key=jax.random.key(3))
    best_return = {"ProbeObservation": None}.get(probe, 1.0)
    if best_return is not None:
        assert float(played.mean) == best_return, "the greedy policy is right everywhere"


def test_a_truncated_episode_is_bootstrapped():
    gamma = 0.9
    env = rl.VecEnv(Loop(max_steps=10), num_envs=4)
    cfg = ppo.Config(num_steps=20, lr=3e-3, gamma=gamma, clip_vloss=False, num_minibatches=1, max_grad_norm=0.0, update_epochs=10)
    state, _ = ppo.train(started(env, cfg), env, cfg, num_updates=200)
    value = float(state.policy(jnp.ones(1))[1])
    watched = (1 - gamma**10) / (1 - gamma)
    assert abs(value - 1 / (1 - gamma)) < 0.3 < 1 / (1 - gamma) - watched, "10, not the 6.5 of ten steps"
