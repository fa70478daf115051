import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rl4jax as rl
from rl4jax.nn import BetaVAE
from tests.nn.distributions.oracles import all_finite


def test_the_sizes_of_the_book(getkey):
    vae = BetaVAE(10, key=getkey())
    assert vae.encode(jnp.zeros(10)).mean.shape == (32,)
    assert vae.strategy_embedding(jnp.zeros(10)).shape == (32,)
    assert vae.decode(jnp.zeros(32)).shape == (10,)
    assert vae.encoder.bias.shape == vae.decoder.bias.shape == (256,)
    assert vae.beta == 1.0


@pytest.mark.parametrize("beta", [0.0, 1.0, 4.0])
def test_the_loss_matches_a_loop(beta, getkey):
    vae, x, key = BetaVAE(5, latent_dim=3, hidden_dim=8, beta=beta, key=getkey()), jax.random.normal(getkey(), (5,)), getkey()
    noise = np.asarray(vae.encode(x).noise(jax.random.clone(key)), np.float64)
    w = {name: np.asarray(x, np.float64) for name, x in rl.nn.pack(vae).params.items()}

    def dense(name, x):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    out = dense("posterior", np.maximum(dense("encoder", np.asarray(x, np.float64)), 0))
    mean, log_var = out[:3], out[3:]
    z = mean + np.exp(log_var / 2) * noise
    rebuilt = dense("output", np.maximum(dense("decoder", z), 0))
    error = sum((rebuilt[d] - x[d]) ** 2 for d in range(5))
    kl = 0.5 * sum(np.exp(log_var[i]) + mean[i] ** 2 - log_var[i] - 1 for i in range(3))
    total, metrics = vae.loss(x, key=key)
    np.testing.assert_allclose(total, error + beta * kl, rtol=1e-5)
    np.testing.assert_allclose(metrics["train/kl"], kl, rtol=1e-5)
    np.testing.assert_allclose(metrics["train/reconstruction_loss"], error, rtol=1e-5)
    np.testing.assert_allclose(vae.strategy_embedding(x), mean, rtol=1e-5, atol=1e-6)


def test_values_and_gradients_are_finite_for_wild_inputs(getkey):
    vae = BetaVAE(5, latent_dim=3, hidden_dim=8, key=getkey())
    for size in (0.0, 1e4, 1e12):
        assert all_finite(eqx.filter_value_and_grad(lambda v, x, k: v.loss(x, key=k)[0])(vae, size * jnp.ones(5), getkey())), size


def test_nothing_learns_beta(getkey):
    vae = BetaVAE(5, latent_dim=3, hidden_dim=8, beta=jnp.float32(2.0), key=getkey())
    assert vae.beta == 2.0
    assert not eqx.is_array(vae.beta), "no optimizer sees it"
    traced = eqx.tree_at(lambda v: v.beta, vae, jnp.float32(2.0))  # as when it is batched
    assert eqx.filter_grad(lambda v, k: v.loss(jnp.ones(5), key=k)[0])(traced, getkey()).beta == 0


@functools.partial(jax.jit, static_argnames="num_steps")
def train(beta, key, num_steps=400):
    """Opponents of two styles, seen through noise: the loss terms after training, and how well the styles are apart in the embedding."""
    model_key, style_key, noise_key, train_key = jax.random.split(key, 4)
    style = jax.random.bernoulli(style_key, 0.5, (256,))
    looks = jnp.where(style[:, None], 1.0, -1.0) * jnp.array([1.0, -1.0, 1.0, 0.0, 0.0, 1.0])
    data = looks + 0.3 * jax.random.normal(noise_key, looks.shape)
    vae = BetaVAE(6, latent_dim=4, hidden_dim=16, beta=beta, key=model_key)
    params, rest = eqx.partition(vae, eqx.is_inexact_array)
    opt = optax.adam(1e-2)

    def loss(params, key):
        model = eqx.combine(params, rest)
        each, metrics = jax.vmap(lambda x, k: model.loss(x, key=k))(data, jax.random.split(key, len(data)))
        return each.mean(), jax.tree.map(jnp.mean, metrics)

    def step(carry, key):
        params, opt_state = carry
        grads, metrics = jax.grad(loss, has_aux=True)(params, key)
        changes, opt_state = opt.update(grads, opt_state)
        return (optax.apply_updates(params, changes), opt_state), metrics

    (params, _), metrics = jax.lax.scan(step, (params, opt.init(params)), jax.random.split(train_key, num_steps))
    embedding = jax.vmap(eqx.combine(params, rest).strategy_embedding)(data)
    middles = jnp.stack([embedding.mean(0, where=style[:, None]), embedding.mean(0, where=~style[:, None])])
    nearest = jnp.square(embedding[:, None] - middles).sum(-1).argmin(-1)
    return jax.tree.map(lambda x: x[-20:].mean(), metrics), (nearest == ~style).mean()


def test_the_embedding_tells_styles_apart_and_a_large_beta_collapses_it(getkey):
    """Measured: KL 8.9, 0.94, 0.0 and reconstruction errors 0.20, 0.73, 4.6 at beta 0.01, 1, 100; one bit is 0.69."""
    results = {beta: train(jnp.float32(beta), getkey()) for beta in (0.01, 1.0, 100.0)}
    kl = {beta: float(metrics["train/kl"]) for beta, (metrics, _) in results.items()}
    assert results[1.0][1] > 0.98
    assert kl[0.01] > 4 * kl[1.0] > 2.0
    assert kl[100.0] < 0.05, "nothing is left: a higher beta is not a cure for posterior collapse but its cause"
    assert results[100.0][0]["train/reconstruction_loss"] > 3 * results[1.0][0]["train/reconstruction_loss"]


@pytest.mark.parametrize(("settings", "said"), [
    ({"latent_dim": 0}, "BetaVAE: latent_dim = 0 must be a positive integer."),
    ({"beta": -1.0}, "BetaVAE: beta = -1.0 must be a number, zero or more."),
])  # fmt: skip
def test_a_mistake_is_answered_with_the_rule(settings, said, getkey):
    with pytest.raises(rl.ConfigError, match=said):
        BetaVAE(3, key=getkey(), **settings)


def test_a_batch_or_another_width_is_refused(getkey):
    vae = BetaVAE(5, latent_dim=3, hidden_dim=8, key=getkey())
    with pytest.raises(rl.ShapeError, match=r"BetaVAE: x has shape \(2, 5\); it must be \(5,\). For a batch use jax.vmap"):
        vae.loss(jnp.zeros((2, 5)), key=getkey())
    with pytest.raises(rl.ShapeError, match=r"BetaVAE: x has shape \(4,\)"):
        vae.strategy_embedding(jnp.zeros(4))
    with pytest.raises(rl.ShapeError, match=r"BetaVAE: z has shape \(5,\); it must be \(3,\)"):
        vae.decode(jnp.zeros(5))
