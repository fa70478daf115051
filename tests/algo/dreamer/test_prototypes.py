"""DreamerPro: even shares, shifted pictures, and what learns from what."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax import gradients
from rl4jax.algo import dreamer
from rl4jax.algo.dreamer.prototypes import Prototypes, shifted, sinkhorn
from rl4jax.algo.dreamer.world_model import world_model_loss

SIZE = dreamer.Size(deter=16, hidden=8, units=8, classes=4, depth=2, groups=3, num_blocks=4, num_bins=15)
CFG = dreamer.Config(batch_size=2, length=4, capacity=200, free_nats=0.0)
FEW = functools.partial(Prototypes, num_prototypes=6, d_prototype=5, shift=1)


class Pictures(NamedTuple):
    """Something to see, and a few numbers beside it."""

    single_observation_space: Any = spaces.Dict(picture=spaces.Box(0, 255, (8, 8, 3), np.uint8), numbers=spaces.Box(-1, 1, (2,)))
    single_action_space: Any = spaces.Discrete(3)


def test_shares_as_published():
    scores = jnp.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.3]])
    shares = sinkhorn(scores / 0.05)
    np.testing.assert_allclose(shares[0], [0.9999985, 4.495e-7, 1.338122e-3], rtol=1e-3, atol=1e-9)
    np.testing.assert_allclose(shares.sum(0), 1.0, rtol=1e-6)
    np.testing.assert_allclose(shares.sum(1), [1.001337, 1.998663], rtol=1e-5)


def test_after_many_rounds_all_prototypes_have_equally_many(getkey):
    shares = sinkhorn(jax.random.normal(getkey(), (4, 12)), 200)
    np.testing.assert_allclose(shares.sum(0), 1.0, rtol=1e-5)
    np.testing.assert_allclose(shares.sum(1), 3.0, rtol=1e-5)


@pytest.fixture(scope="module")
def env():
    return Pictures()


@pytest.fixture(scope="module")
def agent(env):
    return dreamer.Agent(env, SIZE, FEW, key=jax.random.key(0))


def test_pictures_of_a_stretch_move_together_and_repeat_their_edges(agent, getkey):
    picture = jnp.arange(64, dtype=jnp.uint8).reshape(8, 8, 1).repeat(3, -1)
    obs = {"picture": jnp.broadcast_to(picture, (4, 50, 8, 8, 3)), "numbers": jnp.ones((4, 50, 2))}
    moved = shifted(agent.encoder, obs, 1, key=getkey())
    np.testing.assert_array_equal(moved["numbers"], obs["numbers"])
    wide = np.pad(picture, [(1, 1), (1, 1), (0, 0)], "edge")
    every = {(i, j): wide[i : i + 8, j : j + 8] for i in range(3) for j in range(3)}
    found = set()
    for column in range(50):
        (place,) = [k for k, v in every.items() if np.array_equal(v, moved["picture"][0, column])]
        found.add(place)
        for t in range(1, 4):
            np.testing.assert_array_equal(moved["picture"][t, column], moved["picture"][0, column])
    assert len(found) == 9, "all shifts occur"


def moments_of(agent, env):
    keys = iter(jax.random.split(jax.random.key(1), 50))

    def some(x):
        shape = (1 + CFG.length, 3, *x.shape)
        if x.dtype == jnp.float32:
            return jax.random.normal(next(keys), shape)
        if x.dtype == jnp.uint8 and x.ndim == 3:
            return jax.random.randint(next(keys), shape, 0, 255).astype(jnp.uint8)
        return jax.random.bernoulli(next(keys), 0.2, shape).astype(x.dtype)

    return jax.tree.map(some, dreamer.moment_like(agent, env))


def test_what_is_frozen_does_not_learn(agent, env):
    moments = moments_of(agent, env)

    def loss(agent, moments):
        return world_model_loss(agent, moments, CFG, key=jax.random.key(4))[0]

    slow = ("representation.slow_encoder", "representation.slow_of_tokens")
    learning = ("encoder", "rssm", "representation.of_tokens", "representation.of_latent")
    gradients.assert_flow(loss, agent, moments, reaches=learning, not_reaches=slow)
    gradient = jax.jit(jax.grad(loss, allow_int=True))
    assert not bool(jnp.any(gradient(agent, moments).representation.prototypes)), "they stay for a while"
    later = eqx.tree_at(lambda x: x.representation.num_steps, agent, jnp.int32(10_000))
    assert bool(jnp.any(gradient(later, moments).representation.prototypes))


def test_after_a_step_the_slow_ones_follow_and_prototypes_have_length_one(agent):
    changed = jax.tree.map(lambda x: x + 1.0 if x.dtype == jnp.float32 else x, agent)
    after = changed.representation.after_step(changed)
    np.testing.assert_allclose(jnp.linalg.norm(after.prototypes, axis=1), 1.0, rtol=1e-6)
    assert int(after.num_steps) == 1
    old, new = changed.representation.slow_of_tokens.weight, changed.representation.of_tokens.weight
    np.testing.assert_allclose(after.slow_of_tokens.weight, 0.95 * old + 0.05 * new, rtol=1e-5)


def test_without_a_picture_there_is_nothing_to_shift(getkey):
    with pytest.raises(rl.EnvError, match=r"there must be a picture to shift. Use BarlowTwins or InfoNCE"):
        dreamer.Agent(rl.VecEnv(rl.envs.CartPole(), num_envs=1), SIZE, "prototypes", key=getkey())
    with pytest.raises(rl.ConfigError, match=r"representation = 'barlo' is not one we know. Did you mean 'barlow'"):
        dreamer.Agent(rl.VecEnv(rl.envs.CartPole(), num_envs=1), SIZE, "barlo", key=getkey())
