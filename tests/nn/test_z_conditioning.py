import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax import ppo
from rl4jax.nn import Categorical, ZConditioning, orthogonal_linear, z_reward
from tests.fresh_process import run
from tests.nn.distributions.oracles import all_finite


def test_the_observation_stays_and_z_follows_it(getkey):
    condition = ZConditioning(16, 10, key=getkey())
    obs, z = jax.random.normal(getkey(), (10,)), jax.random.normal(getkey(), (16,))
    out = condition(obs, z)
    assert condition.output_dim == len(out) == 74
    np.testing.assert_array_equal(out[:10], obs)
    np.testing.assert_allclose(out[10:], np.asarray(z) @ np.asarray(condition.embed.weight), rtol=1e-4, atol=1e-5)
    assert ZConditioning(16, 10, 5, key=getkey()).output_dim == 15


def test_the_reward_is_minus_the_distance(getkey):
    stats, z = jax.random.normal(getkey(), (2, 4, 3, 7))
    wanted = [[-np.sqrt(sum((stats[i, j, k] - z[i, j, k]) ** 2 for k in range(7))) for j in range(3)] for i in range(4)]
    np.testing.assert_allclose(z_reward(stats, z), wanted, rtol=1e-5)
    assert z_reward(stats, stats).max() == z_reward(stats, stats).min() == 0
    assert z_reward(jnp.array([3, 1], jnp.uint8), jnp.array([3, 2], jnp.uint8)) == -1, "counts do not wrap"


@pytest.mark.parametrize("size", [0.0, 1e-30, 1.0, 1e30])
def test_the_reward_and_its_gradient_are_finite(size):
    assert all_finite(jax.value_and_grad(z_reward)(size * jnp.ones(3), jnp.zeros(3)))


class Drummer(rl.AbstractEnv):
    """Four beats, loud or soft; at the end the share of loud ones should be what z asks for."""

    @property
    def observation_space(self):
        return spaces.Dict({"obs": spaces.Box(0, 4, (2,)), "z": spaces.Box(0, 1, (1,))})

    @property
    def action_space(self):
        return spaces.Discrete(2)

    def reset(self, key):
        z = jax.random.randint(key, (1,), 0, 3) / 2.0
        return (jnp.zeros(2), z), {"obs": jnp.zeros(2), "z": z}

    def step(self, state, action, key):
        (beats, z) = state
        beats = beats + jnp.stack([1.0, action.astype(jnp.float32)])
        over = beats[0] >= 4
        reward = jnp.where(over, z_reward(beats[1:] / 4, z), 0.0)
        return (beats, z), rl.Step({"obs": beats, "z": z}, reward, terminated=over, truncated=jnp.array(False))


class Conditioned(eqx.Module):
    condition: ZConditioning
    mlp: rl.nn.MLP
    policy: rl.nn.Linear
    value: rl.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 4)
        self.condition = ZConditioning(1, 2, 8, key=keys[0])
        self.mlp = rl.nn.MLP(self.condition.output_dim, (32,), key=keys[1])
        self.policy = orthogonal_linear(32, 2, 0.01, key=keys[2])
        self.value = orthogonal_linear(32, 1, 1.0, key=keys[3])

    def __call__(self, obs):
        features = self.mlp(self.condition(obs["obs"] / 4, obs["z"]))
        return Categorical(self.policy(features)), self.value(features)[0]


def test_one_policy_plays_each_strategy_it_is_asked_for(getkey):
    env, cfg = rl.VecEnv(Drummer(), 16), ppo.Config(num_steps=32, lr=rl.Linear(1e-2, 0.0, 60), gamma=1.0)
    state = ppo.init(Conditioned(getkey()), env, cfg, key=getkey())
    state, _ = ppo.train(state, env, cfg, 60)
    for z in (0.0, 0.5, 1.0):
        beats = np.zeros(2, np.float32)
        for _ in range(4):
            action, _ = ppo.act(state.policy, {"obs": jnp.asarray(beats), "z": jnp.array([z])})
            beats += [1, int(action)]
        assert beats[1] / 4 == z


def test_a_mistake_is_answered_with_the_rule(getkey):
    condition = ZConditioning(3, 2, key=getkey())
    with pytest.raises(rl.ShapeError, match=re.escape("ZConditioning: obs has shape (3,) and z (2,); they must be (2,) and (3,).")):
        condition(jnp.zeros(3), jnp.zeros(2))
    program = "import jax.numpy as jnp, rl4jax as rl\ntry: rl.nn.z_reward(jnp.zeros(3), jnp.zeros(1))\nexcept rl.ShapeError as e: print(e)"
    assert run(program).stdout == "z_reward: stats has shape (3,) and z (1,); both must be the same, [..., Z].\n", (
        "without jaxtyping's check"
    )
