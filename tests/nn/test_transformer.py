"""The transformer's blocks and the group transformer, beyond what all readers of sets share (test_attention.py)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax import nn

D = 8


def entities(num, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(num, D)), jnp.float32)


def norm(x):
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def test_a_block_adds_attention_and_then_its_layers_each_behind_a_norm(getkey):
    block = nn.TransformerBlock(D, 2, 12, key=getkey())
    x = np.asarray(entities(5))
    inner, outer = block.feed_forward.inner, block.feed_forward.outer
    middle = x + np.asarray(block.attention(jnp.asarray(norm(x))))
    expected = middle + np.maximum(norm(middle) @ np.asarray(inner.weight).T, 0) @ np.asarray(outer.weight).T  # biases begin at zero
    np.testing.assert_allclose(block(jnp.asarray(x)), expected, atol=1e-5)


def test_the_layers_between_are_four_times_as_wide_unless_told(getkey):
    assert nn.TransformerBlock(D, 2, key=getkey()).feed_forward.inner.weight.shape == (4 * D, D)
    assert nn.TransformerEncoder(D, 2, 3, 5, key=getkey()).blocks[2].feed_forward.inner.weight.shape == (5, D)


def test_an_encoder_is_its_blocks_in_order(getkey):
    encoder = nn.TransformerEncoder(D, 2, 2, 12, key=getkey())
    x, mask = entities(5), jnp.arange(5) < 3
    first, second = encoder.blocks
    np.testing.assert_allclose(encoder(x, mask), second(first(x, mask), mask), atol=1e-6)
    assert (first.attention.qkv.weight != second.attention.qkv.weight).any()


def test_with_a_mask_of_the_past_the_future_changes_nothing(getkey):
    encoder = eqx.filter_jit(nn.TransformerEncoder(D, 2, 2, 12, key=getkey()))
    past = jnp.tril(jnp.ones((5, 5), bool))
    x = entities(5)
    whole, changed = encoder(x, past), encoder(x.at[3:].set(9.0), past)
    np.testing.assert_array_equal(whole[:3], changed[:3])
    assert (whole[3:] != changed[3:]).any()
    for length in (1, 4):
        np.testing.assert_allclose(encoder(x[:length], past[:length, :length]), whole[:length], atol=1e-5)


def test_a_slot_that_reads_but_is_not_read_is_there(getkey):
    encoder = nn.TransformerEncoder(D, 2, 1, 12, key=getkey())
    mask = jnp.ones((5, 5), bool).at[:, 0].set(False)
    y = encoder(entities(5), mask)
    assert (y[0] != 0).all()
    np.testing.assert_allclose(y[1:], encoder(entities(5)[1:]), atol=1e-5)


GROUPS = {"ally": ("enemy",), "enemy": (), "tree": ("ally", "enemy")}


@pytest.fixture
def groups():
    return {"ally": entities(3, 0), "enemy": entities(4, 1), "tree": entities(2, 2)}


@pytest.fixture
def model(getkey):
    return nn.GroupTransformer(GROUPS, D, 2, num_layers=1, d_ff=12, key=getkey())


def reached(model, groups):
    """Which groups of the input change which groups of the output."""
    before = model(groups)
    for name, x in groups.items():
        after = model({**groups, name: x + 1.0 + x**2})
        yield name, {other for other in groups if (before[other] != after[other]).any()}


def test_a_group_sees_itself_and_the_groups_it_looks_at(model, groups):
    expected = {"ally": {"ally", "tree"}, "enemy": {"ally", "enemy", "tree"}, "tree": {"tree"}}
    assert dict(reached(eqx.filter_jit(model), groups)) == expected


def test_what_is_seen_spreads_with_every_layer(groups, getkey):
    looks_at = {"ally": ("enemy",), "enemy": ("tree",), "tree": ()}
    one, two = (nn.GroupTransformer(looks_at, D, 2, num_layers=n, d_ff=12, key=getkey()) for n in (1, 2))
    assert dict(reached(eqx.filter_jit(one), groups))["tree"] == {"enemy", "tree"}
    assert dict(reached(eqx.filter_jit(two), groups))["tree"] == {"ally", "enemy", "tree"}


def test_a_group_layer_is_a_block_within_and_then_attention_across(model, groups):
    layer = model.layers[0]
    within = {name: layer.within[name](x) for name, x in groups.items()}
    seen = eqx.filter_jit(model)(groups)
    np.testing.assert_allclose(seen["enemy"], within["enemy"], atol=1e-5)
    cross = layer.across["tree"]
    context = jnp.concatenate([within["ally"], within["enemy"]])
    x = within["tree"]
    x = x + cross.attention(jax.vmap(cross.norm)(x), jax.vmap(cross.context_norm)(context))
    x = x + cross.feed_forward(jax.vmap(cross.feed_forward_norm)(x))
    np.testing.assert_allclose(seen["tree"], x, atol=1e-5)


def test_the_order_within_another_group_does_not_matter(model, groups):
    shuffled = {**groups, "enemy": groups["enemy"][jnp.array([2, 0, 3, 1])]}
    run = eqx.filter_jit(model)
    for name in ("ally", "tree"):
        np.testing.assert_allclose(run(groups)[name], run(shuffled)[name], atol=1e-5)


@pytest.mark.parametrize("empty", ["no rows", "masked"])
def test_a_group_may_be_empty(empty, model, groups):
    nobody = {**groups, "enemy": jnp.zeros((0, D)) if empty == "no rows" else jnp.full((4, D), jnp.nan)}
    masks = {} if empty == "no rows" else {"enemy": jnp.zeros(4, bool)}
    seen = eqx.filter_jit(model)(nobody, masks)
    assert all(jnp.isfinite(x).all() for x in seen.values())
    assert (seen["enemy"] == 0).all()
    alone = nn.GroupTransformer({"ally": ()}, D, 2, 1, 12, key=jax.random.key(0))
    alone = eqx.tree_at(lambda m: m.layers[0].within["ally"], alone, model.layers[0].within["ally"])
    x = alone({"ally": groups["ally"]})["ally"]
    cross = model.layers[0].across["ally"]
    np.testing.assert_allclose(seen["ally"], x + cross.feed_forward(jax.vmap(cross.feed_forward_norm)(x)), atol=1e-5)
