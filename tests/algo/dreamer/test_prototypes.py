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
from rl4jax.algo.dreamer.looking import look
from rl4jax.algo.dreamer.prototypes import Prototypes, shifted, sinkhorn
from rl4jax.algo.dreamer.world_model import world_model_loss
from tests.algo.dreamer.small import SIZE, noisy, random_moments

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


def loop_shares(scores):
    """`[K][M]`: what each prototype takes of each step, by turns the same of each and all of each."""
    shares = np.exp((scores - scores.max()) / 0.05)
    shares /= shares.sum()
    for _ in range(3):
        for k in range(len(shares)):
            shares[k] /= len(shares) * shares[k].sum()
        for m in range(shares.shape[1]):
            shares[:, m] /= shares.shape[1] * shares[:, m].sum()
    return shares * shares.shape[1]


def log_of_shares(scores):
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


def cosines(projected, prototypes):
    return projected / np.linalg.norm(projected, axis=-1, keepdims=True) @ prototypes.T


@eqx.filter_jit
def two_views(agent, moments, key):
    """What is said of each of two views by pictures, by latents, and by the slow encoder; without the first step."""
    one_key, other_key, look_key = jax.random.split(key, 3)
    views = [moments._replace(obs=shifted(agent.encoder, moments.obs, 1, key=k)) for k in (one_key, other_key)]
    seen, _ = look(agent, jax.tree.map(lambda *x: jnp.concatenate(x, 1), *views), key=look_key)
    part, seen = agent.representation, jax.tree.map(lambda x: x[1:], seen)
    slow_tokens = jax.vmap(jax.vmap(part.slow_encoder))(seen.moments.obs)
    projected = zip((part.of_tokens, part.of_latent, part.slow_of_tokens), (seen.tokens, seen.latents.features, slow_tokens), strict=True)
    return [jnp.split(jax.vmap(jax.vmap(of))(x), 2, 1) for of, x in projected]


def test_pictures_are_told_by_the_other_view_and_latents_by_their_own(agent, env):
    agent = noisy(agent, 7)
    moments = random_moments(agent, env)
    seen, _ = eqx.filter_jit(look)(agent, moments, key=jax.random.key(6))  # without shifts: not used
    loss = eqx.filter_jit(agent.representation.loss)(agent, moments, seen, key=jax.random.key(8))
    by_picture, by_latent, slow = np.asarray(two_views(agent, moments, jax.random.key(8)), np.float64)  # [2, L - 1, N, P] each
    prototypes, wanted, num = np.asarray(agent.representation.prototypes, np.float64), 0.0, by_picture[..., 0].size
    targets = [loop_shares(cosines(view.reshape(-1, view.shape[-1]), prototypes).T).T.reshape(*view.shape[:2], -1) for view in slow]
    for view in (0, 1):
        for t, i in np.ndindex(by_picture.shape[1:3]):
            picture, latent = by_picture[view, t, i], by_latent[view, t, i]
            wanted -= (targets[1 - view][t, i] * log_of_shares(cosines(picture, prototypes) / 0.1)).sum()
            wanted -= (targets[view][t, i] * log_of_shares(cosines(latent, prototypes) / 0.1)).sum()
            wanted += (np.linalg.norm(picture) - 1) ** 2 + (np.linalg.norm(latent) - 1) ** 2
    assert float(loss) == pytest.approx(wanted / num, rel=1e-4)
    assert float(np.abs(targets[0] - targets[1]).max()) > 0.1, "views differ"


def test_what_is_frozen_does_not_learn(agent, env):
    moments = random_moments(agent, env)

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
