"""Observations of many parts, and sets of entities among them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax import nn

UNITS = spaces.Box(-np.inf, np.inf, (5, 3), np.float32)
GAME = spaces.Dict(
    map=spaces.Box(0, 255, (5, 5, 2), np.uint8),
    phase=spaces.Discrete(3),
    units=UNITS,
    units_mask=spaces.MultiBinary(5),
    weather=spaces.Box(-1, 1, (2,), np.float32),
)


def observed(getkey, num_units=3):
    return {
        "map": jax.random.randint(getkey(), (5, 5, 2), 0, 256).astype(jnp.uint8),
        "phase": jnp.int32(2),
        "units": jax.random.normal(getkey(), (5, 3)),
        "units_mask": (jnp.arange(5) < num_units).astype(jnp.int8),
        "weather": jax.random.normal(getkey(), (2,)),
    }


def test_each_part_goes_its_way_and_they_join_in_the_order_of_the_space(getkey):
    encoder, obs = nn.MultiEncoder(GAME, d_image=7, d_entity=4, key=getkey()), observed(getkey)
    assert (list(encoder.cnns), list(encoder.sets)) == (["map"], ["units"])
    assert encoder.d_out == 7 + 3 + 2 * 4 + 2
    units = encoder.sets["units"](obs["units"], jnp.arange(5) < 3)
    wanted = jnp.concatenate([encoder.cnns["map"](obs["map"]), jnp.array([0.0, 0, 1]), units, obs["weather"]])
    np.testing.assert_allclose(eqx.filter_jit(encoder)(obs), wanted, atol=1e-5)


def loop_set(encoder, x, present):
    rows = []
    for row, is_there in zip(np.asarray(x), present, strict=True):
        if is_there:
            for layer in encoder.layers:
                row = np.maximum(np.asarray(layer.weight) @ row + np.asarray(layer.bias), 0.0)
            rows.append(row)
    return np.concatenate([np.mean(rows, 0), np.max(rows, 0)]) if rows else np.zeros(encoder.d_out)


@pytest.mark.parametrize("present", [[1, 1, 1, 1, 1], [1, 0, 1, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]], ids=str)
def test_a_set_is_the_mean_and_maximum_over_who_is_there(present, getkey):
    encoder = jax.tree.map(lambda x: x + 0.2, nn.SetEncoder(3, 4, key=getkey()))
    x, mask = jax.random.normal(getkey(), (5, 3)), jnp.array(present, bool)
    found = encoder(x, mask)
    np.testing.assert_allclose(found, loop_set(encoder, x, present), atol=1e-5)
    order = jnp.array([3, 0, 4, 2, 1])
    np.testing.assert_allclose(encoder(x[order], mask[order]), found, atol=1e-6)
    longer = jnp.concatenate([x, jnp.full((4, 3), jnp.nan)]), jnp.concatenate([mask, jnp.zeros(4, bool)])
    np.testing.assert_allclose(encoder(*longer), found, atol=1e-6)


@pytest.mark.parametrize("rubbish", [1e6, jnp.nan, jnp.inf])
def test_what_lies_in_masked_slots_changes_nothing(rubbish, getkey):
    encoder, obs = nn.MultiEncoder(GAME, d_image=4, d_entity=4, key=getkey()), observed(getkey)
    weights = jax.random.normal(getkey(), (encoder.d_out,))

    @eqx.filter_jit
    def judged(encoder, units):
        both = eqx.filter_value_and_grad(lambda both: (both[0]({**obs, "units": both[1]}) * weights).sum())
        return both((encoder, units))

    clean = judged(encoder, obs["units"])
    dirty = judged(encoder, obs["units"].at[3:].set(rubbish))
    for a, b in zip(jax.tree.leaves(clean), jax.tree.leaves(dirty), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (dirty[1][1][3:] == 0).all()
    assert (dirty[1][1][:3] != 0).any()


def test_nobody_there_gives_zeros_and_no_gradient(getkey):
    encoder = jax.tree.map(lambda x: x + 0.2, nn.SetEncoder(3, 4, key=getkey()))
    value, grads = jax.value_and_grad(lambda e: (e(jnp.full((2, 3), jnp.nan), jnp.zeros(2, bool)) + 1).sum())(encoder)
    assert value == encoder.d_out
    assert all((g == 0).all() for g in jax.tree.leaves(grads))


def test_a_matrix_is_a_set_only_if_it_is_said_to_be_one(getkey):
    space = spaces.Dict(board=spaces.Box(0, 1, (4, 3)), units=UNITS)
    assert nn.MultiEncoder(space, key=getkey()).d_out == 12 + 15
    encoder = nn.MultiEncoder(space, entities=("units",), d_entity=4, key=getkey())
    assert list(encoder.sets) == ["units"]
    obs = {"board": jnp.zeros((4, 3)), "units": jax.random.normal(getkey(), (5, 3))}
    np.testing.assert_allclose(encoder(obs | {"units": obs["units"][::-1]}), encoder(obs), atol=1e-6)


@pytest.mark.parametrize(
    ("space", "obs", "size"),
    [
        (spaces.Box(-1, 1, (3,)), jnp.ones(3), 3),
        (spaces.Box(-1, 1, (3, 2)), jnp.ones((3, 2)), 6),
        (spaces.Discrete(4), jnp.int32(1), 4),
        (
            spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 255, (4, 4, 1), np.uint8))),
            (jnp.int32(1), jnp.ones((4, 4, 1), jnp.uint8)),
            2 + 6,
        ),
        (spaces.Dict(hand=spaces.Discrete(3), hand_mask=spaces.MultiBinary(3)), {"hand": jnp.int32(0), "hand_mask": jnp.ones(3)}, 3 + 3),
        (spaces.Dict(action_mask=spaces.MultiBinary(4)), {"action_mask": jnp.ones(4, jnp.int8)}, 4),
    ],
    ids=str,
)
def test_spaces_without_sets(space, obs, size, getkey):
    encoder = nn.MultiEncoder(space, d_image=6, key=getkey())
    assert encoder(obs).shape == (size,) == (encoder.d_out,)


@pytest.mark.parametrize(
    ("space", "entities", "said"),
    [
        (spaces.Dict(units=UNITS), "units", r"entities = 'units' must be a sequence of names. Use entities=\('units',\)"),
        (spaces.Dict(units=UNITS), ("unit",), r"entities names 'unit', but the observation has \['units'\]"),
        (
            spaces.Dict(units=UNITS, units_mask=spaces.MultiBinary(4)),
            ("units",),
            r"'units_mask' is MultiBinary\(4\).* it must be MultiBinary\(5\)",
        ),
        (spaces.Dict(units=UNITS, units_mask=spaces.Box(0, 1, (5,))), ("units",), r"'units_mask' is Box.* it must be MultiBinary\(5\)"),
        (spaces.Dict(units=UNITS, units_mask=spaces.Box(0, 1, (5,))), (), r"'units_mask' is Box.* it must be MultiBinary\(5\).*rename it"),
        (spaces.Dict(units=UNITS, units_mask=spaces.MultiBinary(4)), (), r"'units_mask' is MultiBinary\(4\).*rename it"),
        (spaces.Dict(units=spaces.Box(0, 1, (5,))), ("units",), r"'units' is Box.*must be a Box of shape \[S, F\]"),
    ],
)
def test_bad_sets_are_refused(space, entities, said, getkey):
    with pytest.raises(rl.EnvError, match=said):
        nn.MultiEncoder(space, entities, key=getkey())


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.bool_, np.float32])
def test_a_board_of_zeros_and_ones_looks_the_same_in_any_dtype(dtype, getkey):
    board = jax.random.bernoulli(getkey(), 0.3, (6, 5, 2))
    encoder = nn.MultiEncoder(spaces.Box(0, 1, (6, 5, 2), dtype), d_image=8, key=getkey())
    wanted = encoder(board.astype(jnp.float32))
    assert wanted.std() > 0.01
    np.testing.assert_allclose(eqx.filter_jit(encoder)(board.astype(dtype)), wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("low", "high", "dtype", "divisor"),
    [
        (0, 255, np.uint8, 255),
        (0, 5, np.int32, 5),
        (-8, 5, np.int8, 8),
        (0, 40000, np.uint16, 40000),
        (np.zeros((4, 4, 2)), np.tile([3, 7], (4, 4, 1)), np.int32, 7),
        (-np.inf, np.inf, np.int32, 1),
        (0, np.iinfo(np.int64).max, np.int64, 1),
        (0, 0, np.uint8, 1),
    ],
    ids=str,
)
def test_integers_in_images_are_divided_by_the_largest_bound_of_the_space(low, high, dtype, divisor, getkey):
    space = spaces.Box(low, high, dtype=dtype, shape=(4, 4, 2))
    assert nn.MultiEncoder(space, d_image=4, key=getkey()).cnns[""].high == divisor


class Crowd(rl.AbstractEnv):
    """Five slots for units, of whom two are there. The reward is for saying whether the mean of their first number is positive."""

    @property
    def observation_space(self):
        return spaces.Dict(units=UNITS, units_mask=spaces.MultiBinary(5))

    @property
    def action_space(self):
        return spaces.Discrete(2)

    def _obs(self, key):
        return {"units": jax.random.normal(key, (5, 3)), "units_mask": (jnp.arange(5) < 2).astype(jnp.int8)}

    def reset(self, key):
        obs = self._obs(key)
        return obs["units"], obs

    def step(self, state, action, key):
        right = (state[:2, 0].mean() > 0) == action
        obs = self._obs(key)
        return obs["units"], rl.Step(obs, right.astype(jnp.float32), jnp.array(True), jnp.array(False))


def test_networks_read_sets(getkey):
    env = rl.VecEnv(Crowd(), num_envs=2)
    assert rl.collect.RND(env, key=getkey(), hidden=(4,)).space.space == env.single_observation_space
    assert list(nn.QNetwork(env, key=getkey(), hidden=(4,)).trunk.encoder.sets) == ["units"]
    model = nn.ActorCritic(env, key=getkey(), hidden=(8,))
    nn.check_model(model, env.single_observation_space, env.single_action_space)
    _, obs = env.env.reset(getkey())
    hidden = {**obs, "units": obs["units"].at[2:].set(jnp.nan)}
    assert model(hidden)[1] == model(obs)[1]
