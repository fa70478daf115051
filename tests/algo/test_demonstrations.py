"""Demonstrations: made from arrays and rollouts, checked."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax import bc
from tests.algo.small import Mixed, started

from_arrays = inspect.unwrap(bc.from_arrays)  # for what its annotations refuse before it can


def test_arrays_become_what_jax_has():
    data = bc.from_arrays({"a": np.zeros((3, 2)), "b": np.zeros((3, 4), np.uint8)}, np.array([0, 2, 1]), np.ones((3, 3), bool))
    assert jax.tree.map(lambda x: str(x.dtype), data) == bc.Demonstrations({"a": "float32", "b": "uint8"}, "int32", "bool")
    assert bc.from_arrays(np.zeros((3, 2)), np.zeros((3, 1))).mask is None


@pytest.mark.parametrize(
    ("obs", "action", "mask", "said"),
    [
        (
            np.zeros((3, 2)),
            np.zeros(4, int),
            None,
            "('float32[3,2]', 'int32[4]', None); all its arrays must have the same number of examples",
        ),
        (np.zeros((0, 2)), np.zeros(0, int), None, "all its arrays must have the same number of examples in front, at least one"),
        (np.float32(1), np.zeros(3, int), None, "must have the same number of examples in front"),
        (np.zeros((3, 2)), np.zeros(3, bool), None, "bc.from_arrays: action is bool[3]; it must hold integers, for choices, or floats"),
        (np.zeros((3, 2)), {"go": np.array([0, -1, 1])}, None, "bc.from_arrays: action['go'] holds -1 to 1; choices are counted from 0"),
        (
            np.zeros((2, 1)),
            np.array([0, 2**32 + 1]),
            None,
            "bc.from_arrays: action holds 0 to 4294967297; choices are counted from 0, in 32 bits",
        ),
        (np.array([[1.0], [1e39]]), np.zeros(2, int), None, "bc.from_arrays: obs[1] is not finite. Leave such steps out"),
        (np.array([[0.0], [np.nan], [1.0]]), np.zeros(3, int), None, "bc.from_arrays: obs[1] is not finite. Leave such steps out"),
        (np.zeros((2, 1)), {"x": np.array([[0.0], [np.inf]])}, None, "bc.from_arrays: action['x'][1] is not finite"),
        (np.zeros((3, 2)), np.zeros(3, int), np.ones((3, 2)), "mask is float32[3,2]; it must be bool [N, A], true where allowed"),
        (np.zeros((3, 2)), np.zeros(3, int), np.ones((2, 2), bool), "must have the same number of examples in front"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(obs, action, mask, said):
    with pytest.raises(rl.ShapeError, match=re.escape(said)):
        from_arrays(obs, action, mask)
    with pytest.raises(rl.ConfigError, match=re.escape("bc.from_arrays: obs = {} must be an array, or a dict or tuple of arrays")):
        from_arrays({}, action)


@pytest.fixture(scope="module")
def rollout():
    """Of every kind of action at once, with masks."""
    env = rl.VecEnv(Mixed(), num_envs=3)
    cfg = rl.ppo.Config(num_steps=5, num_minibatches=1)
    return rl.ppo.collect(started(env, cfg), env, cfg)[1]


def test_the_valid_steps_of_rollouts_are_demonstrations(rollout):
    dead = rollout._replace(valid=rollout.valid.at[2, 1].set(False))
    data = bc.from_rollouts([rollout, dead])
    assert len(data.mask) == 15 + 14
    kept = np.flatnonzero(np.asarray(dead.valid).ravel())
    for got, had in zip(jax.tree.leaves(data), jax.tree.leaves(bc.Demonstrations(rollout.obs, rollout.action, rollout.mask)), strict=True):
        flat = np.asarray(had).reshape(15, *had.shape[2:])
        np.testing.assert_array_equal(got, np.concatenate([flat, flat[kept]]))
        assert got.dtype == had.dtype
    assert len(bc.from_rollouts(rollout).mask) == 15


def test_rollouts_that_do_not_fit_are_refused(rollout):
    with pytest.raises(rl.ShapeError, match=r"bc.from_rollouts: rollouts\[1\] has examples .*mask=None.*must be like those of the first"):
        bc.from_rollouts([rollout, rollout._replace(mask=None)])
    with pytest.raises(TypeError, match=r"rollouts holds a int; it must be an rl.Rollout"):
        inspect.unwrap(bc.from_rollouts)([3])
    with pytest.raises(rl.ConfigError, match=r"bc.from_rollouts: rollouts = .* must be at least one"):
        bc.from_rollouts([])
    with pytest.raises(TypeError, match=r"bc.from_rollouts cannot be compiled.*outside of jit"):
        jax.jit(bc.from_rollouts)(rollout)


def test_a_rollout_of_a_host_environment_is_a_demonstration_too():
    env = rl.GymVecEnv("CartPole-v1", num_envs=2)
    cfg = rl.ppo.Config(num_steps=4, num_minibatches=1)
    _, rollout = rl.ppo.collect(started(env, cfg), env, cfg)
    data = bc.from_rollouts(rollout)
    assert (data.obs.shape, data.action.shape) == ((8, 4), (8,))
    assert isinstance(data.obs, jnp.ndarray)


def test_observations_that_would_wrap_or_are_no_numbers_are_refused():
    action = np.zeros(4, int)
    assert rl.bc.from_arrays(np.full((4, 2), 7), action).obs.dtype == jnp.int32
    with pytest.raises(rl.ShapeError, match=r"obs holds 1099511627776 to .*int32 cannot"):
        rl.bc.from_arrays(np.full((4, 2), 2**40), action)
    with pytest.raises(rl.ShapeError, match=r"obs\['a'\] is .*; it must hold numbers"):
        rl.bc.from_arrays({"a": np.array(["x"] * 4)}, action)
