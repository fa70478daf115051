import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax.core.spaces import StaticSpace, mask_allows, struct_of

SPACES = [
    spaces.Discrete(4),
    spaces.Discrete(3, start=2),
    spaces.MultiDiscrete([3, 2, 4]),
    spaces.MultiDiscrete([[3, 2], [4, 2]]),
    spaces.MultiBinary(5),
    spaces.Box(-1, 1, (2, 3)),
    spaces.Box(0, 255, (2, 2, 3), np.uint8),
    spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Tuple((spaces.Box(-1, 1, (2,)), spaces.MultiBinary(2)))}),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_flatten_is_gymnasiums(space, wrap):
    space.seed(0)
    for _ in range(3):
        x = space.sample()
        wanted = gymnasium.spaces.flatten(space, x)
        got = wrap(lambda x: rl.flatten(space, x))(x)
        assert got.dtype == jnp.float32
        np.testing.assert_allclose(got, wanted)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_struct_describes_the_elements_as_jax_holds_them(space):
    wanted = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, space.sample()))
    assert jax.tree.map(lambda x: x.shape, struct_of(space)) == jax.tree.map(lambda x: x.shape, wanted)


def test_unknown_spaces_are_named():
    with pytest.raises(rl.EnvError, match=r"Text.* is a space rl4jax does not know"):
        struct_of(spaces.Text(5))
    with pytest.raises(rl.EnvError, match=r"MultiBinary.* is not an action space rl4jax knows"):
        rl.random_action(spaces.MultiBinary(2), jax.random.key(0))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(4),
        spaces.MultiDiscrete([3, 2]),
        spaces.Box(-2, 1, (2,)),
        spaces.Box(-np.inf, np.inf, (1,)),
        spaces.Box(0, np.inf, (1,)),
    ],
    ids=str,
)
def test_random_actions_lie_in_their_space_and_differ(space, getkey):
    actions = jax.vmap(lambda k: rl.random_action(space, k))(jax.random.split(getkey(), 200))
    for action in np.asarray(actions):
        assert space.contains(action.astype(space.dtype))
    assert len(np.unique(actions, axis=0)) > 3


def test_random_actions_respect_each_bound_by_itself(getkey):
    space = spaces.Box(np.float32([100, -np.inf, 5, -np.inf, -3e38]), np.float32([200, np.inf, np.inf, -5, 3e38]))
    actions = np.asarray(jax.vmap(lambda k: rl.random_action(space, k))(jax.random.split(getkey(), 2000)))
    assert np.isfinite(actions).all()
    np.testing.assert_allclose(actions[:, 0].mean(), 150, atol=3)
    np.testing.assert_allclose(actions[:, 1].std(), 1, atol=0.1)
    assert (actions[:, 2].min() >= 5, actions[:, 3].max() <= -5) == (True, True)
    assert len(np.unique(actions[:, 2])) > 1000
    whole = spaces.Box(0, 5, (2,), np.int32)
    actions = np.asarray(jax.vmap(lambda k: rl.random_action(whole, k))(jax.random.split(getkey(), 2000)))
    assert actions.dtype == np.int32
    np.testing.assert_allclose(np.bincount(actions.ravel()) / actions.size, 1 / 6, atol=0.03)


def test_masks_and_elements_of_another_shape_are_errors():
    with pytest.raises(rl.ShapeError, match=r"mask has shape \(3,\); for Discrete\(2\) it must be \(2,\).*jax.vmap"):
        rl.random_action(spaces.Discrete(2), jax.random.key(0), jnp.ones(3, bool))
    with pytest.raises(rl.ShapeError, match=r"x has shape \(8, 2\); one element .* has \(2,\). For a batch use jax.vmap"):
        rl.flatten(spaces.Box(0, 1, (2,)), jnp.zeros((8, 2)))


def test_random_actions_are_uniform_over_what_the_mask_allows(getkey):
    space = spaces.MultiDiscrete([3, 4])
    mask = jnp.array([True, False, True, False, True, True, True])
    actions = np.asarray(jax.vmap(lambda k: rl.random_action(space, k, mask))(jax.random.split(getkey(), 6000)))
    first, second = (np.bincount(actions[:, i], minlength=n) / len(actions) for i, n in enumerate((3, 4)))
    np.testing.assert_allclose(first, [1 / 2, 0, 1 / 2], atol=0.03)
    np.testing.assert_allclose(second, [0, 1 / 3, 1 / 3, 1 / 3], atol=0.03)


def test_a_mask_must_leave_every_head_a_choice():
    space = spaces.MultiDiscrete([2, 2])
    masks = np.array([[1, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]], bool)
    assert mask_allows(space, masks).tolist() == [True, False, False]
    assert mask_allows(space, jnp.asarray(masks)).tolist() == [True, False, False]


def test_clip_action_moves_only_continuous_actions():
    assert rl.clip_action(spaces.Box(-1, 1, (2,)), jnp.array([3.0, 0.5])).tolist() == [1.0, 0.5]
    assert rl.clip_action(spaces.Discrete(2), jnp.int32(1)) == 1


def test_static_spaces_compare_by_value():
    a, b, c = (StaticSpace(spaces.Box(-1, high, (2,))) for high in (1, 1, 2))
    assert a == b
    assert hash(a) == hash(b)
    assert a != c
