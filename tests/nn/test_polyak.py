"""Target networks that follow."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax.nn import polyak


class Counting(eqx.Module):
    """A module with leaves of every kind."""

    net: eqx.nn.MLP  # its activation is a leaf that is no array
    scale: float
    count: jax.Array
    key: jax.Array
    name: str = eqx.field(static=True, default="net")


def module(key, count=0, width=4, depth=1, **fields):
    net_key, own_key = jax.random.split(key)
    return Counting(eqx.nn.MLP(2, 2, width, depth, key=net_key), 1.0 + count, jnp.int32(count), own_key, **fields)


def same(a, b):
    return bool(eqx.tree_equal(*(dataclasses.replace(tree, key=None) for tree in (a, b))))


@pytest.mark.parametrize("wrap", [lambda f: f, eqx.filter_jit], ids=["plain", "jit"])
def test_floats_move_towards_the_source_and_the_rest_is_the_sources(wrap, getkey):
    target, source = module(getkey(), 1), module(getkey(), 5)
    got = wrap(polyak)(target, source, 0.25)
    for new, old, goal in zip(got.net.layers, target.net.layers, source.net.layers, strict=True):
        np.testing.assert_allclose(new.weight, 0.75 * np.asarray(old.weight) + 0.25 * np.asarray(goal.weight), rtol=1e-6)
    assert float(got.scale) == 0.75 * 2 + 0.25 * 6
    assert got.net.activation is source.net.activation
    assert int(got.count) == 5
    assert (jax.random.key_data(got.key) == jax.random.key_data(target.key)).all(), "two networks must not draw the same noise"


def test_one_copies_the_source_and_zero_leaves_the_target(getkey):
    target, source = module(getkey(), 1), module(getkey(), 5)
    assert same(polyak(target, source, 1.0), source)
    assert same(polyak(target, source, 0.0), target)


def test_tau_may_be_traced_and_tell_when_to_copy(getkey):
    """The target of DQN, inside a compiled loop: a copy at every third step."""
    sources = jax.random.normal(getkey(), (7, 2))

    def step(target, now):
        t, source = now
        target = polyak(target, source, jnp.where(t % 3 == 0, 1.0, 0.0))
        return target, target

    _, targets = jax.lax.scan(step, jnp.zeros(2), (jnp.arange(7), sources))
    np.testing.assert_array_equal(targets, sources[jnp.array([0, 0, 0, 3, 3, 3, 6])])


def test_a_target_follows_its_source_geometrically():
    target = {"weight": jnp.zeros(3)}
    for _ in range(10):
        target = polyak(target, {"weight": jnp.ones(3)}, 0.1)
    np.testing.assert_allclose(target["weight"], 1 - 0.9**10, rtol=1e-5)


def test_the_target_keeps_its_dtype():
    got = polyak(jnp.zeros(2, jnp.bfloat16), jnp.ones(2, jnp.float32), jnp.float32(0.5))
    assert got.dtype == jnp.bfloat16
    assert got.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("tau", [-0.1, 1.5, float("nan")])
def test_a_tau_out_of_range_is_named(tau):
    with pytest.raises(rl.ConfigError, match=rf"polyak: tau = {tau} must be in \[0, 1\]"):
        polyak(jnp.zeros(2), jnp.ones(2), tau)


def test_trees_that_differ_are_named_by_their_first_leaf(getkey):
    with pytest.raises(rl.ShapeError, match=r"polyak: target has a leaf \['b'\], which source has not\. They must be built alike"):
        polyak({"a": jnp.zeros(2), "b": jnp.zeros(2)}, {"a": jnp.zeros(2)}, 0.5)
    with pytest.raises(rl.ShapeError, match=r"polyak: source has a leaf \.net\.layers\[2\]\.weight, which target has not"):
        polyak(module(getkey(), width=2), module(getkey(), width=2, depth=2), 0.5)
    with pytest.raises(
        rl.ShapeError, match=r"target\.net\.layers\[0\]\.weight has shape \(4, 2\) and source\.net\.layers\[0\]\.weight \(5, 2\)"
    ):
        polyak(module(getkey()), module(getkey(), width=5), 0.5)
    with pytest.raises(rl.ShapeError, match="the same leaves, but differ in a class or a static field"):
        polyak(module(getkey()), module(getkey(), name="other"), 0.5)


def test_the_ends_hold_for_what_is_not_finite():
    wild, tame = jnp.array([jnp.nan, jnp.inf, -jnp.inf]), jnp.ones(3)
    for tau in (0.0, jnp.zeros(())):
        np.testing.assert_array_equal(polyak(tame, wild, tau), tame)
    for tau in (1.0, jnp.ones(())):
        np.testing.assert_array_equal(polyak(wild, tame, tau), tame)
