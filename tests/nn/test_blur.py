"""Blurred pictures, and a decoder that compares them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax import dreamer
from rl4jax.nn.blur import blurred
from rl4jax.nn.obs_decoder import ObsDecoder
from rl4jax.nn.rssm import Latent


def plain(image, width):
    """Each pixel spread over all others."""
    out = np.zeros(image.shape)
    height, across, _ = image.shape
    for y in range(height):
        for x in range(across):
            for row in range(height):
                for column in range(across):
                    out[row, column] += image[y, x] * np.exp(-(abs(row - y) + abs(column - x)) / width)
    return out * np.tanh(1 / width)


@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("width", [0.5, 3.0])
def test_blurred_is_as_a_plain_loop(width, channels_last, getkey):
    images = jax.random.normal(getkey(), (2, 5, 4, 3))
    given = images if channels_last else jnp.moveaxis(images, -1, 1)
    found = blurred(given, width, channels_last)
    expected = [plain(np.asarray(image), width) for image in images]
    np.testing.assert_allclose(found if channels_last else jnp.moveaxis(found, 1, -1), expected, atol=1e-5)


def lone(column):
    return jnp.zeros((1, 65, 65, 1)).at[0, 32, column].set(1.0)


def test_a_lone_pixel_keeps_its_size_and_is_the_farther_from_another_the_more_lies_between():
    def squares(x):
        return float(jnp.square(blurred(x, 3.0, True)).sum())

    assert squares(lone(32)) == pytest.approx(1.0, abs=1e-5)
    apart = [squares(lone(32) - lone(32 + d)) for d in range(12)]
    assert apart[0] == 0
    assert (np.diff(apart) > 0).all()
    assert apart[-1] < 2  # what two pixels are apart that know nothing of each other, as all are without blur


@pytest.fixture
def parts(getkey):
    space = spaces.Dict(
        {"near": spaces.Box(0, 255, (1, 8, 8), np.uint8), "far": spaces.Box(0, 1, (8, 8, 2)), "speed": spaces.Box(-1, 1, (2,))}
    )
    rssm = rl.nn.RSSM(4, 2, deter=16, hidden=8, groups=2, classes=4, num_blocks=4, key=getkey())

    def make(blur=0.0):
        return ObsDecoder(space, rssm, 8, 4, blur, key=jax.random.key(1))

    latents = Latent(jax.random.normal(getkey(), (3, 16)), jnp.zeros((3, 2, 4)).at[:, :, 1].set(1.0))
    obs = {name: jnp.stack([jnp.asarray(part.sample()) for _ in range(3)]) for name, part in space.items()}
    return make, latents, obs


def test_a_decoder_counts_errors_of_pictures_once_more_blurred(parts):
    make, latents, obs = parts
    sharp, both = make(), make(2.0)
    painted = jax.vmap(sharp.images)(latents)
    extra = sum(
        jnp.square(blurred(painted[name] - obs[name] / scale, 2.0, last)).sum((1, 2, 3))
        for name, scale, last in (("near", 255, False), ("far", 1, True))
    )
    np.testing.assert_allclose(both.loss(latents, obs), sharp.loss(latents, obs) + extra, rtol=1e-5)


@pytest.mark.parametrize("blur", [-1.0, float("nan"), float("inf")])
def test_a_blur_is_a_number_of_pixels(blur, getkey):
    env = rl.VecEnv(rl.envs.Catch(rows=8, columns=8), num_envs=2)
    with pytest.raises(rl.ConfigError, match=r"ObsDecoder: blur = .* must be a number of pixels"):
        dreamer.Agent(env, "tiny", functools.partial(dreamer.Decoder, blur=blur), key=getkey())


def test_there_must_be_something_to_blur(getkey):
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=2)
    with pytest.raises(rl.EnvError, match=r"ObsDecoder: observations are Box\(.*\); there is no picture to blur"):
        dreamer.Agent(env, "tiny", "blurred", key=getkey())
