"""The recurrent state-space model: its size, its steps, and what it forgets."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax.nn.obs_decoder import ObsDecoder
from rl4jax.nn.obs_encoder import ObsEncoder, split_obs
from rl4jax.nn.readout import Readout
from rl4jax.nn.rssm import RSSM, bounded

SMALL = {"deter": 16, "hidden": 8, "groups": 3, "classes": 4, "num_blocks": 4}
NUM_STEPS, NUM_SEQUENCES = 6, 3


def num_parameters(module):
    return sum(x.size for x in jax.tree.leaves(eqx.filter(module, eqx.is_array)))


# Published sizes: DreamerV3's smallest preset on CartPole, and on walker-walk of the DeepMind Control Suite.
CARTPOLE = {"enc": 8832, "dyn": 364160, "dec": 49796, "rew": 57663, "con": 41153, "pol": 49666, "val": 66111}
WALKER = {"enc": 10112, "dyn": 364416, "dec": 51096, "rew": 57663, "con": 41153, "pol": 50316, "val": 66111}
WALKER_OBS = spaces.Dict({name: spaces.Box(-1, 1, (size,)) for name, size in (("orientations", 14), ("height", 1), ("velocity", 9))})


@pytest.mark.parametrize(
    ("space", "d_action", "d_policy", "published"), [(spaces.Box(-1, 1, (4,)), 2, 2, CARTPOLE), (WALKER_OBS, 6, 12, WALKER)]
)
def test_all_parts_are_as_large_as_published(space, d_action, d_policy, published, getkey):
    encoder = ObsEncoder(space, 64, 4, key=getkey())
    rssm = RSSM(encoder.d_out, d_action, key=getkey())
    head = lambda d_out, num_layers: Readout(rssm.d_features, d_out, 64, num_layers, key=getkey())  # noqa: E731
    parts = [encoder, rssm, ObsDecoder(space, rssm, 64, 4, key=getkey()), head(255, 1), head(1, 1), head(d_policy, 3), head(255, 3)]
    assert [num_parameters(part) for part in parts] == list(published.values())


@pytest.fixture(scope="module")
def rssm():
    return RSSM(5, 2, **SMALL, key=jax.random.key(0))


@pytest.fixture(scope="module")
def columns(rssm):
    keys = jax.random.split(jax.random.key(1), 4)
    shape = (NUM_STEPS, NUM_SEQUENCES)
    actions, tokens = 2 * jax.random.normal(keys[0], (*shape, 2)), jax.random.normal(keys[1], (*shape, 5))
    is_first = jax.random.bernoulli(keys[2], 0.3, shape)
    return actions, tokens, is_first, jax.random.gumbel(keys[3], (*shape, 3, 4))


def begun(rssm):
    return jax.tree.map(lambda x: jnp.full((NUM_SEQUENCES, *x.shape), 0.5), rssm.initial())


def test_a_sequence_is_its_steps(rssm, columns):
    latents, logits = jax.jit(lambda *given: rssm.observe(*given))(begun(rssm), *columns)
    latent = begun(rssm)
    for t in range(NUM_STEPS):
        latent, posterior = jax.vmap(rssm.observe_step)(latent, *(x[t] for x in columns))
        for one, all_of_them in ((latent.deter, latents.deter), (latent.stoch, latents.stoch), (posterior.logits, logits)):
            np.testing.assert_allclose(one, all_of_them[t], atol=2e-6)


def test_a_first_step_forgets_latent_and_action(rssm, columns):
    actions, tokens, _, noise = columns
    is_first = jnp.zeros((NUM_STEPS, NUM_SEQUENCES), bool).at[2].set(True)
    whole, _ = rssm.observe(begun(rssm), actions, tokens, is_first, noise)
    zeros = jax.tree.map(jnp.zeros_like, begun(rssm))
    fresh, _ = rssm.observe(zeros, actions[2:].at[0].set(0.0), tokens[2:], jnp.zeros_like(is_first[2:]), noise[2:])
    np.testing.assert_allclose(whole.deter[2:], fresh.deter, atol=2e-6)
    np.testing.assert_array_equal(whole.stoch[2:].argmax(-1), fresh.stoch.argmax(-1))


def test_without_inputs_to_the_gates_most_is_kept(rssm):
    still = eqx.tree_at(lambda m: m.gates.weight, rssm, jnp.zeros_like(rssm.gates.weight))
    latent = rssm.initial()._replace(deter=jnp.arange(16.0))
    np.testing.assert_allclose(still.advance(latent, jnp.ones(2)), 0.7310586 * jnp.arange(16.0), rtol=1e-6)


def test_a_block_sees_its_own_memory_only_and_all_inputs(rssm):
    """Of the layer before the gates: with the shared inputs held, each block depends on its own part alone."""
    blocks = jax.jacobian(rssm.mix)(jnp.ones(4 * (4 + 24))).reshape(4, 4, 4, 4 + 24)
    for i in range(4):
        for j in range(4):
            assert bool(jnp.any(blocks[i, :, j] != 0)) == (i == j)


def test_large_actions_are_scaled_to_one():
    np.testing.assert_allclose(bounded(jnp.array([0.5, -3.0, 1.0])), [0.5, -1.0, 1.0])


def test_imagination_follows_the_prior(rssm):
    latent, action, noise = rssm.initial(), jnp.array([1.0, 0.0]), rssm.noise(jax.random.key(2))
    after = rssm.imagine(latent, action, noise)
    np.testing.assert_array_equal(after.deter, rssm.advance(latent, action))
    np.testing.assert_allclose(after.stoch, rssm.prior(after.deter).sample_from(noise))
    greedy = rssm.imagine(latent, action)
    np.testing.assert_allclose(greedy.stoch, rssm.prior(after.deter).mode())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_blocks": 5}, r"RSSM: num_blocks = 5 must be a divisor of deter = 16"),
        ({"groups": 0}, r"RSSM: groups = 0 must be a positive integer"),
        ({"unimix": 1.0}, r"RSSM: unimix = 1.0 must be in \[0, 1\)"),
    ],
)
def test_wrong_sizes(options, message):
    with pytest.raises(rl.ConfigError, match=message):
        RSSM(5, 2, **SMALL | options, key=jax.random.key(0))


@pytest.mark.parametrize(("space", "darkest", "brightest"), [
    (spaces.Box(0, 255, (8, 8, 1), np.uint8), 0, 255),
    (spaces.Box(0, 1, (8, 8, 1), np.uint8), 0, 1),
    (spaces.Box(-1, 1, (8, 8, 1)), -1, 1),
])  # fmt: skip
def test_pixels_are_read_by_the_bounds_of_their_space(space, darkest, brightest):
    for value, wanted in ((darkest, 0.0), (brightest, 1.0)):
        images, rest = split_obs(space, jnp.full(space.shape, value, space.dtype))
        assert not rest
        np.testing.assert_array_equal(images[""], wanted)
