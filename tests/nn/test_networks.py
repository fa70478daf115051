"""Networks built from spaces: shapes, initialisation, memory."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax import nn
from rl4jax.nn.cnn import NATURE_FROM
from tests.algo.small import Mixed


@pytest.mark.parametrize(("d_in", "d_out"), [(8, 3), (3, 8), (5, 5), (1, 1)])
@pytest.mark.parametrize("gain", [1.0, 0.01, np.sqrt(2)])
def test_orthogonal_layers_keep_lengths_up_to_their_gain(d_in, d_out, gain, getkey):
    layer = nn.orthogonal_linear(d_in, d_out, gain, key=getkey())
    small = layer.weight.T @ layer.weight if d_out <= d_in else layer.weight @ layer.weight.T
    np.testing.assert_allclose(small, gain**2 * np.eye(min(d_in, d_out)), atol=1e-5)
    assert (layer.bias == 0).all()


def test_orthogonal_weights_are_uniform_over_rotations(getkey):
    """Haar measure: the first entry of a 2 x 2 rotation is the cosine of a uniform angle. A QR without its sign fix is not."""
    weights = jax.vmap(lambda k: nn.orthogonal_linear(2, 2, 1.0, key=k).weight)(jax.random.split(getkey(), 4000))
    np.testing.assert_allclose(weights.mean(0), 0, atol=0.05)
    np.testing.assert_allclose((weights**2).mean(0), 0.5, atol=0.02)
    assert abs((jnp.linalg.det(weights) > 0).mean() - 0.5) < 0.05


@pytest.mark.parametrize("shared", [True, False])
def test_an_actor_critic_begins_almost_uniform_with_the_gains_of_ppo(shared, getkey):
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=1)
    model = nn.ActorCritic(env, key=getkey(), shared=shared)
    assert len(model.trunks) == (1 if shared else 2)
    norms = [float(jnp.linalg.svd(layer.weight, compute_uv=False)[0]) for trunk in model.trunks for layer in trunk.mlp.layers]
    np.testing.assert_allclose(norms, np.sqrt(2), rtol=1e-5)
    np.testing.assert_allclose(jnp.linalg.svd(model.policy.linear.weight, compute_uv=False), 0.01, rtol=1e-4)
    np.testing.assert_allclose(jnp.linalg.svd(model.value.weight, compute_uv=False), 1.0, rtol=1e-5)
    pi, value = model(jnp.ones(4))
    np.testing.assert_allclose(jax.nn.softmax(pi.logits), 0.5, atol=0.02)
    assert value.shape == ()


@pytest.mark.parametrize("core", [None, "lstm", "gru"])
@pytest.mark.parametrize("name", [n for n in rl.envs.BUILT_IN if not n.startswith("Probe")])
def test_every_built_in_environment_gets_a_network(name, core, getkey):
    env = rl.VecEnv(rl.make(name), num_envs=2)
    model = nn.ActorCritic(env, key=getkey(), hidden=(8,), core=core)
    rl.nn.check_model(model, env.single_observation_space, env.single_action_space)


def test_pictures_go_through_convolutions_and_the_rest_is_flat(getkey):
    env = rl.VecEnv(Mixed(), num_envs=2)
    model = nn.ActorCritic(env, key=getkey(), hidden=(8,), log_std="model", squash=True)
    assert list(model.trunks[0].encoder.cnns) == ["picture"]
    assert model.trunks[0].mlp.layers[0].weight.shape[0] == 512 + 1 + 8
    rl.nn.check_model(model, env.single_observation_space, env.single_action_space)
    _, obs = env.env.reset(getkey())
    changed = {**obs, "picture": obs["picture"] + 100}
    assert model(obs)[1] != model(changed)[1]


@pytest.mark.parametrize("shape", [(84, 84, 4), (4, 84, 84), (36, 40, 3), (10, 10, 6), (3, 5, 5)])
def test_a_cnn_takes_images_of_either_layout(shape, getkey):
    cnn = nn.CNN(shape, 16, key=getkey())
    image = jax.random.randint(getkey(), shape, 0, 256).astype(jnp.uint8)
    assert cnn(image).shape == (16,)
    assert len(cnn.convs) == (3 if sorted(shape)[1] >= NATURE_FROM else 2)
    np.testing.assert_allclose(cnn(image), cnn(image / 255.0), atol=1e-5)
    other = jnp.moveaxis(image, -1, 0) if shape[-1] <= shape[0] else jnp.moveaxis(image, 0, -1)
    twin = eqx.tree_at(lambda c: (c.convs, c.linear), nn.CNN(other.shape, 16, key=getkey()), (cnn.convs, cnn.linear))
    np.testing.assert_allclose(twin(other), cnn(image), atol=1e-5)


def test_an_image_too_small_for_a_cnn_is_refused(getkey):
    with pytest.raises(rl.ShapeError, match=r"shape = \(2, 2, 1\).*at least 3 pixels"):
        nn.CNN((2, 2, 1), key=getkey())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda env, key: nn.ActorCritic(env, key=key, hidden=()), "hidden = .* one positive integer per layer"),
        (lambda env, key: nn.ActorCritic(env, key=key, hidden=(0,)), "hidden = .* one positive integer per layer"),
        (lambda env, key: nn.ActorCritic(env, key=key, activation="tahn"), "activation = 'tahn'.*Did you mean 'tanh'"),
    ],
)
def test_bad_networks_are_refused(call, said, getkey):
    with pytest.raises(rl.ConfigError, match=said):
        call(rl.VecEnv(rl.envs.CartPole(), num_envs=1), getkey())


def test_spaces_without_a_policy_are_refused(getkey):
    for space, said in (
        (spaces.Box(0, 9, (2,), np.int32), "holds integers"),
        (spaces.Dict([("b", spaces.Discrete(2)), ("a", spaces.Discrete(2))]), "alphabetical order"),
        (spaces.Text(3), "not an action space"),
    ):
        with pytest.raises(rl.EnvError, match=said):
            nn.ActionHead(space, 4, key=getkey())
    with pytest.raises(rl.EnvError, match="squash=True needs finite bounds"):
        nn.ActionHead(spaces.Box(-np.inf, 1, (2,), np.float32), 4, key=getkey(), squash=True)


def test_a_packed_model_is_the_model_again(getkey):
    class Odd(eqx.Module):
        mlp: eqx.nn.MLP  # keeps its activation, a function, as a leaf
        table: jax.Array
        scale: float

        def __call__(self, obs):
            return self.mlp(obs) * self.scale + self.table[0]

    model = Odd(eqx.nn.MLP(2, 1, 4, 1, key=getkey()), jnp.arange(3), 0.5)
    packed = nn.pack(model)
    assert {name: x.dtype for name, x in packed.buffers.items()} == {"table": jnp.int32}
    assert "mlp.layers.0.weight" in packed.params
    x = jnp.ones(2)
    np.testing.assert_array_equal(jax.jit(lambda p: p.model(x))(packed), model(x))
    assert hash(nn.pack(model).rest) == hash(packed.rest)
    assert nn.pack(model).rest == packed.rest


class Remembering(eqx.Module):
    """A memory of four numbers, that says nothing of how it begins."""

    core: nn.GRU
    head: nn.Linear

    def __init__(self, *, key):
        self.core, self.head = nn.GRU(2, 4, key=key), nn.orthogonal_linear(4, 3, key=jax.random.clone(key))

    def __call__(self, obs, carry):
        features, carry = self.core(obs, carry)
        return nn.Categorical(self.head(features)), features[0], carry


class Beginning(eqx.Module):
    """The same, with a beginning of another size."""

    model: Remembering

    def initial_carry(self):
        return jnp.zeros(5)

    def __call__(self, obs, carry):
        return self.model(obs, carry)


class Plain(eqx.Module):
    def __call__(self, obs):
        return nn.Categorical(obs["hand"]), jnp.zeros(())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            Remembering,
            r"(?s)Remembering: called with one observation float32\[2\], it raises TypeError: .*needs a method initial_carry\(\)",
        ),
        (lambda *, key: Beginning(Remembering(key=key)), r"(?s)memory float32\[5\] of initial_carry\(\), it raises ShapeError: GRU: carry"),
        (lambda *, key: Plain(), r"Plain: called with one observation float32\[2\], it raises TypeError: .*$"),
    ],
)
def test_what_a_model_raises_is_told_with_what_it_was_given(make, said, getkey):
    with pytest.raises(rl.ShapeError, match=said) as caught:
        nn.check_model(make(key=getkey()), spaces.Box(-1, 1, (2,)), spaces.Discrete(3))
    assert isinstance(caught.value.__cause__, TypeError | ValueError)
