"""From images, sets and vectors to features, and back to images: against plain loops."""

import inspect
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax import nn
from rl4jax.nn.cnn import check_layers, read_shape
from rl4jax.nn.mlp import check_hidden


def loop_conv(x, conv, stride):
    """A convolution of `[C, H, W]` as a loop over its output, padded so that nothing is lost at the border, the smaller half in front."""
    weight, bias = np.asarray(conv.weight), np.asarray(conv.bias)
    kernel = weight.shape[-1]
    size = [-(-n // stride) for n in x.shape[1:]]
    pads = [max((n - 1) * stride + kernel - m, 0) for n, m in zip(size, x.shape[1:], strict=True)]
    x = np.pad(x, [(0, 0), *[(pad // 2, pad - pad // 2) for pad in pads]])
    out = np.zeros((len(weight), *size))
    for i, j in np.ndindex(*size):
        patch = x[:, i * stride : i * stride + kernel, j * stride : j * stride + kernel]
        out[:, i, j] = (weight * patch).sum((1, 2, 3)) + bias[:, 0, 0]
    return out


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_an_mlp_normalises_before_its_activation(norm, getkey):
    mlp = nn.MLP(3, (4, 5), "silu", norm, key=getkey())
    mlp = jax.tree.map(lambda x: x + 0.3 * jax.random.normal(getkey(), x.shape), mlp)
    x = np.asarray(jax.random.normal(getkey(), (3,)))
    out = mlp(jnp.asarray(x))
    for layer, scale in zip(mlp.layers, mlp.norms, strict=True):
        x = x @ np.asarray(layer.weight) + np.asarray(layer.bias)
        if norm == "rms":
            x = x / np.sqrt((x**2).mean() + 1e-4) * np.asarray(scale.weight)
        else:
            x = (x - x.mean()) / np.sqrt(x.var() + 1e-5) * np.asarray(scale.weight) + np.asarray(scale.bias)
        x = x / (1 + np.exp(-x))
    np.testing.assert_allclose(out, x, atol=1e-5)


def test_the_rms_norm_is_dreamerv3s(getkey):
    norm = nn.MLP(2, (2,), norm="rms", key=getkey()).norms[0]
    np.testing.assert_allclose(norm(jnp.array([3.0, 4.0])), [0.8485247, 1.1313663], rtol=1e-6)
    assert len(jax.tree.leaves(norm)) == 1  # a scale and no shift


def test_an_unknown_norm_is_refused(getkey):
    with pytest.raises(rl.ConfigError, match=r"norm = 'batch' is not one we know.*Known: layer, rms.*Or None"):
        nn.MLP(2, (2,), norm="batch", key=getkey())


@pytest.mark.parametrize("shape", [(7, 6, 2), (1, 9, 5), (16, 16, 3)])
def test_a_cnn_with_strides_is_a_loop_over_its_pixels(shape, getkey):
    layers = ((4, 3, 2), (5, 4, 3))
    cnn = nn.CNN(shape, 6, layers, key=getkey())
    image = jax.random.randint(getkey(), shape, 0, 256).astype(jnp.uint8)
    x = np.asarray(image) / 255.0
    x = np.moveaxis(x, -1, 0) if shape[-1] <= shape[0] else x
    for conv, (_, _, stride) in zip(cnn.convs, layers, strict=True):
        x = np.maximum(loop_conv(x, conv, stride), 0.0)
    wanted = np.maximum(x.ravel() @ np.asarray(cnn.linear.weight) + np.asarray(cnn.linear.bias), 0.0)
    np.testing.assert_allclose(eqx.filter_jit(cnn)(image), wanted, atol=1e-4)


@pytest.mark.parametrize("shape", [(7, 6, 2), (1, 9, 5), (8, 8, 3)])
def test_a_decoder_repeats_pixels_and_convolves_them(shape, getkey):
    decoder = nn.CNNDecoder(3, shape, ((4, 3, 2), (5, 4, 3)), key=getkey())
    features = jax.random.normal(getkey(), (3,))
    channels_last = shape[-1] <= shape[0]
    height, width = shape[:2] if channels_last else shape[1:]
    half = (-(-height // 2), -(-width // 2))
    third = (-(-half[0] // 3), -(-half[1] // 3))
    x = np.asarray(decoder.linear(features)).reshape(5, *third)
    for conv, stride, size in zip(decoder.convs, (3, 2), (half, (height, width)), strict=True):
        x = np.maximum(x, 0.0)
        rows, columns = np.arange(size[0]) // stride, np.arange(size[1]) // stride
        x = loop_conv(x[:, rows][:, :, columns], conv, 1)
    image = eqx.filter_jit(decoder)(features)
    assert image.shape == shape
    np.testing.assert_allclose(image, np.moveaxis(x, 0, -1) if channels_last else x, atol=1e-4)


@pytest.mark.parametrize("shape", [(84, 84, 3), (3, 3, 1), (1, 64, 64), (5, 11, 2), (3, 37, 50)])
def test_images_of_any_size_come_back_in_their_shape(shape, getkey):
    encoder = eqx.filter_eval_shape(lambda: nn.CNN(shape, 4, key=jax.random.key(0)))
    decoder = eqx.filter_eval_shape(lambda: nn.CNNDecoder(4, shape, key=jax.random.key(0)))
    image = jax.ShapeDtypeStruct(shape, jnp.uint8)
    assert eqx.filter_eval_shape(lambda e, d, x: d(e(x)), encoder, decoder, image).shape == shape


def test_an_image_can_be_learned_back_from_its_features(getkey):
    layers = ((8, 3, 2),)
    both = nn.CNN((5, 4, 1), 16, layers, key=getkey()), nn.CNNDecoder(16, (5, 4, 1), layers, key=getkey())
    images = jax.random.uniform(getkey(), (4, 5, 4, 1))

    @eqx.filter_jit
    def learn(both):
        def error(both):
            return jnp.mean((jax.vmap(lambda x: both[1](both[0](x)))(images) - images) ** 2)

        def step(both, _):
            found, grads = eqx.filter_value_and_grad(error)(both)
            return jax.tree.map(lambda x, g: x - 0.3 * g, both, grads), found

        return jax.lax.scan(step, both, length=300)[1]

    errors = learn(both)
    assert errors[-1] < 0.05 * errors[0]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda key: nn.CNN((8, 8, 3), layers=(), key=key), rl.ConfigError, r"CNN: layers = \(\) must be \(channels, kernel, stride\)"),
        (lambda key: nn.CNN((8, 8, 3), layers=((8, 3),), key=key), rl.ConfigError, r"CNN: layers = .* for each layer"),
        (lambda key: nn.CNNDecoder(4, (8, 8, 3), ((8, 3, 0),), key=key), rl.ConfigError, r"CNNDecoder: layers = "),
        (lambda key: nn.CNNDecoder(4, (8, 8), key=key), rl.ShapeError, r"CNNDecoder: shape = \(8, 8\); it must be"),
        (
            lambda key: inspect.unwrap(check_layers)("CNN", (8, 3, 2)),
            rl.ConfigError,
            r"CNN: layers = \(8, 3, 2\) must be .* for each layer",
        ),
        (lambda key: nn.CNN((8, 8, 3), high=0, key=key), rl.ConfigError, r"CNN: high = 0 must be a positive number"),
        (lambda key: inspect.unwrap(check_hidden)(8), rl.ConfigError, r"MLP: hidden = 8 must be a sequence of positive integers"),
        (lambda key: nn.MLP(4, (8, 0), key=key), rl.ConfigError, r"MLP: hidden = \(8, 0\) must be"),
    ],
)
def test_bad_layers_are_refused(call, error, said, getkey):
    with pytest.raises(error, match=said):
        call(getkey())


@pytest.mark.parametrize(
    ("shape", "channels", "channels_last"),
    [
        ((8, 8, 119), 119, True),
        ((9, 9, 17), 17, True),
        ((119, 8, 8), 119, False),
        ((84, 84, 4), 4, True),
        ((4, 84, 84), 4, False),
        ((5, 5, 5), 5, True),
        ((37, 50, 3), 3, True),
        ((3, 37, 50), 3, False),
        ((8, 119, 8), 8, True),
    ],
)
def test_two_equal_neighbours_are_height_and_width(shape, channels, channels_last):
    assert read_shape("CNN", shape)[:2] == (channels_last, channels)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda key: nn.CNN((37, 50, 3), 4, key=key)(jnp.zeros((50, 37, 3))), "CNN: image has shape (50, 37, 3); it must be (37, 50, 3)."),
        (lambda key: nn.CNN((5, 4, 3), 4, key=key)(jnp.zeros((2, 5, 4, 3))), "CNN: image has shape (2, 5, 4, 3); it must be (5, 4, 3)."),
        (lambda key: nn.CNNDecoder(4, (5, 4, 3), key=key)(jnp.zeros(3)), "CNNDecoder: features has shape (3,); it must be (4,)."),
        (lambda key: nn.MLP(4, (8,), key=key)(jnp.zeros(5)), "MLP: x has shape (5,); it must be (4,)."),
        (lambda key: nn.MLP(4, (8,), norm="rms", key=key)(jnp.zeros((3, 4))), "MLP: x has shape (3, 4); it must be (4,)."),
    ],
)
def test_a_batch_or_another_shape_is_refused(call, said, getkey):
    with pytest.raises(rl.ShapeError, match=re.escape(said + " For a batch use jax.vmap.")):
        call(getkey())
