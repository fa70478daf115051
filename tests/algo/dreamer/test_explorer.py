"""Acting as if nothing had been learned, for a share of the steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax import dreamer
from rl4jax.algo.dreamer.explorer import Explorer
from rl4jax.nn.distributions.chance import draw
from rl4jax.nn.model import choose

SIZE = dreamer.Size(deter=16, hidden=8, units=8, classes=4, groups=3, num_blocks=4, num_bins=15)
NUM = 4_000


@pytest.fixture(scope="module")
def agent():
    """Of Acrobot, three choices; it is sure of the last one."""
    agent = dreamer.Agent(rl.VecEnv(rl.envs.Acrobot(), 1), SIZE, key=jax.random.key(0))
    sure = jnp.array([0.0, 0.0, 20.0])
    return eqx.tree_at(lambda x: x.policy.last.bias, agent, sure)


@eqx.filter_jit
def actions(agent, share, mask=None):
    player = Explorer(agent, jnp.asarray(share))
    noise = jax.vmap(lambda key: draw(player.chance, key))(jax.random.split(jax.random.key(1), NUM))
    return jax.vmap(lambda noise: choose(player, jnp.zeros(6), player.initial_carry(), mask, noise))(noise)


@pytest.mark.parametrize(("share", "expected"), [(0.0, [1 / 300, 1 / 300]), (0.3, [0.102, 0.102]), (1.0, [1 / 3, 1 / 3])])
def test_a_share_of_choices_is_uniform(agent, share, expected):
    action, log_prob, _ = actions(agent, share)
    chosen = np.bincount(action, minlength=3) / NUM
    np.testing.assert_allclose(chosen[:2], expected, atol=4 * np.sqrt(0.25 / NUM))
    if share == 1.0:
        np.testing.assert_allclose(np.exp(log_prob), 1 / 3, rtol=1e-5)


def test_the_mask_is_kept_and_the_memory_knows_what_was_done(agent):
    action, _, (_, done) = actions(agent, 1.0, jnp.array([True, False, True]))
    assert set(np.unique(action)) == {0, 2}
    np.testing.assert_array_equal(done.argmax(-1), action)


def test_collecting_explores_and_the_greedy_policy_does_not(agent):
    env = rl.VecEnv(rl.envs.Acrobot(), 4)
    played = {}
    for explore in (0.0, 1.0):
        cfg = dreamer.Config(num_steps=200, length=8, capacity=2_000, explore=explore)
        _, rollout = dreamer.collect(dreamer.init(agent, env, cfg, key=jax.random.key(2)), env, cfg)
        played[explore] = np.bincount(np.asarray(rollout.action).ravel(), minlength=3) / rollout.action.size
    assert played[0.0][2] > 0.97
    assert (abs(played[1.0] - 1 / 3) < 0.08).all()
    greedy, _ = dreamer.act(agent, jnp.zeros(6))
    assert greedy == 2
