"""Advantages of several heads against those of one."""

import dataclasses
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax.collect import MultiHead, gae, multi_head_gae

gae_of_heads = jax.jit(multi_head_gae)


def random_inputs(num_heads, seed=0):
    rng = np.random.default_rng(seed)
    reward, value, next_value = jnp.asarray(rng.normal(size=(3, 9, 2, num_heads)), jnp.float32)
    terminated, truncated = jnp.asarray(rng.random((2, 9, 2)) < 0.2)
    return reward, value, next_value, terminated, truncated


def one_head(reward, value, next_value, terminated, truncated, gamma, lam):
    return gae(reward, value, next_value, jnp.where(terminated, 0.0, gamma), jnp.where(terminated | truncated, 0.0, lam))


def test_equal_heads_equal_one_head():
    one = random_inputs(1)
    same = [jnp.repeat(x, 3, -1) for x in one[:3]] + list(one[3:])
    wanted = one_head(*(x[..., 0] for x in one[:3]), *one[3:], 0.9, 0.8)
    for weight in (1.0, [0.2, 5.0, 0.0]):
        got = gae_of_heads(*same, MultiHead(3, gamma=0.9, gae_lambda=0.8, weight=weight))
        np.testing.assert_allclose(got.advantage, wanted, atol=1e-5)
        np.testing.assert_allclose(got.target, jnp.repeat((wanted + one[1][..., 0])[..., None], 3, -1), atol=1e-5)


def test_heads_that_share_a_reward_add_up_to_the_head_of_the_whole():
    reward, value, next_value, terminated, truncated = random_inputs(3)
    got = gae_of_heads(reward, value, next_value, terminated, truncated, MultiHead(3, gamma=0.9, gae_lambda=0.8))
    whole = one_head(reward.sum(-1), value.sum(-1), next_value.sum(-1), terminated, truncated, 0.9, 0.8)
    np.testing.assert_allclose(3 * got.advantage, whole, atol=1e-5)


def test_each_head_has_its_own_gamma_lambda_and_weight():
    inputs = random_inputs(3)
    gamma, lam, weight = [0.5, 0.9, 0.99], [0.0, 0.95, 1.0], [1.0, 2.0, 5.0]
    got = gae_of_heads(*inputs, MultiHead(3, gamma, lam, weight))
    heads = [one_head(*(x[..., h] for x in inputs[:3]), *inputs[3:], gamma[h], lam[h]) for h in range(3)]
    np.testing.assert_allclose(got.target, jnp.stack(heads, -1) + inputs[1], atol=1e-5)
    np.testing.assert_allclose(got.advantage, sum(w / 8 * a for w, a in zip(weight, heads, strict=True)), atol=1e-5)


def test_a_truncated_episode_is_bootstrapped_and_a_terminated_one_is_not():
    ones = jnp.ones((1, 2, 1))
    got = multi_head_gae(ones, 0 * ones, 10 * ones, jnp.array([[False, True]]), jnp.array([[True, False]]), MultiHead(1, gamma=0.9))
    np.testing.assert_allclose(got.advantage, [[10.0, 1.0]])


def test_no_gradient_passes_through_the_targets_of_the_heads():
    inputs = random_inputs(2)
    for part in ("advantage", "target"):
        total = lambda *x, part=part: getattr(multi_head_gae(*x, *inputs[3:], MultiHead(2)), part).sum()  # noqa: E731
        assert all((g == 0).all() for g in jax.grad(total, argnums=(0, 1, 2))(*inputs[:3]))


def test_weights_sum_to_one_and_are_equal_unless_given():
    np.testing.assert_allclose(MultiHead(4).weight, 0.25)
    np.testing.assert_allclose(MultiHead(5, weight=[0.1, 0.2, 0.2, 0.2, 0.3]).weight, [0.1, 0.2, 0.2, 0.2, 0.3])
    np.testing.assert_allclose(dataclasses.replace(MultiHead(2), weight=jnp.array([3.0, 1.0])).weight, [0.75, 0.25])


def test_discounts_can_be_vmapped():
    inputs = random_inputs(2)
    gammas = jnp.array([[0.9, 0.5], [0.99, 0.1]])
    got = jax.vmap(lambda gamma: multi_head_gae(*inputs, MultiHead(2, gamma)).advantage)(gammas)
    np.testing.assert_allclose(got[1], multi_head_gae(*inputs, MultiHead(2, gammas[1])).advantage, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 0}, r"MultiHead\.num_heads = 0 must be a positive integer"),
        ({"gamma": 1.2}, r"MultiHead\.gamma = 1\.2 must be in \[0, 1\]"),
        ({"gae_lambda": [0.5, float("nan")]}, r"MultiHead\.gae_lambda = \[0\.5, nan\] must be in \[0, 1\]"),
        ({"weight": [1.0, -1.0]}, r"MultiHead\.weight = \[1\.0, -1\.0\] must be zero or more, and not all zero"),
        ({"weight": [0.0, 0.0]}, "not all zero"),
        ({"gamma": [0.9, 0.9, 0.9]}, r"MultiHead\.gamma has shape \(3,\); give one number, or one for each of the 2 heads"),
    ],
)
def test_a_setting_out_of_range_is_named(settings, message):
    with pytest.raises(rl.ConfigError, match=message):
        MultiHead(**{"num_heads": 2} | settings)


def test_arrays_of_other_shapes_are_named():
    reward, value, next_value, terminated, truncated = random_inputs(2)
    function = inspect.unwrap(multi_head_gae)
    with pytest.raises(rl.ShapeError, match=r"reward has shape \(9, 2, 2\); .* its last the heads, of which cfg has 3"):
        function(reward, value, next_value, terminated, truncated, MultiHead(3))
    with pytest.raises(rl.ShapeError, match=r"truncated has shape \(9, 2, 2\); it must be that of reward without the heads, \(9, 2\)"):
        function(reward, value, next_value, terminated, reward > 0, MultiHead(2))
    with pytest.raises(rl.ShapeError, match=r"multi_head_gae: value has shape \(9, 2, 1\)"):
        function(reward, value[..., :1], next_value, terminated, truncated, MultiHead(2))
