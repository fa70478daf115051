"""What everything that reads sets of entities has in common: order, padding, masks, nothing to attend to. And multi-head attention itself."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax import nn
from rl4jax.nn.entity_mask import masked_softmax

D, S = 8, 5
QUERY = jnp.linspace(-1, 1, 6)
OTHERS = jnp.sin(jnp.arange(2.0 * D)).reshape(2, D)

# A reader: how it is made, and how it is called with entities [S, D] and a mask [S].
ROWS = {  # one row per entity comes out
    "attention": (lambda key: nn.MultiHeadAttention(D, 2, key=key), lambda m, x, mask: m(x, mask=mask)),
    "attention with pairs": (
        lambda key: nn.MultiHeadAttention(D, 2, key=key),
        lambda m, x, mask: m(x, mask=None if mask is None else mask[:, None] & mask),
    ),
    "encoder": (lambda key: nn.TransformerEncoder(D, 4, 1, key=key), lambda m, x, mask: m(x, mask)),
    "encoder with pairs": (
        lambda key: nn.TransformerEncoder(D, 2, 2, 12, key=key),
        lambda m, x, mask: m(x, None if mask is None else mask[:, None] & mask),
    ),
    "group": (
        lambda key: nn.GroupTransformer({"ally": ("enemy",), "enemy": ()}, D, 2, 1, 12, key=key),
        lambda m, x, mask: m({"ally": x, "enemy": OTHERS}, {"ally": mask})["ally"],
    ),
}
CHOICES = {  # one number per entity
    "target": (lambda key: nn.TargetAttention(6, D, key=key), lambda m, x, mask: m(QUERY, x, mask)),
    "pointer": (lambda key: nn.PointerNet(6, D, 7, key=key), lambda m, x, mask: m(QUERY, x, mask)),
}
POOLS = {  # no axis of entities
    "pool": (lambda key: nn.AttentionPool(D, 3, 2, key=key), lambda m, x, mask: m(x, mask)),
    "cross": (lambda key: nn.MultiHeadAttention(D, 2, key=key), lambda m, x, mask: m(OTHERS, x, mask)),
    "cross with pairs": (
        lambda key: nn.MultiHeadAttention(D, 2, key=key),
        lambda m, x, mask: m(OTHERS, x, None if mask is None else jnp.stack([mask, mask])),
    ),
    "looked at": (
        lambda key: nn.GroupTransformer({"ally": ("enemy",), "enemy": ()}, D, 2, 1, 12, key=key),
        lambda m, x, mask: m({"ally": OTHERS, "enemy": x}, {"enemy": mask})["ally"],
    ),
    "picks": (
        lambda key: nn.PointerSequence(6, D, 7, key=key),
        lambda m, x, mask: m(QUERY, x, 2, mask).entropy((jnp.int32(0), jnp.int32(1))),
    ),
}
READERS = ROWS | CHOICES | POOLS


@functools.cache
def model_of(name):
    return READERS[name][0](jax.random.key(3))


def run(name, x, mask):
    """What the reader makes of it, and the gradients of a sum that weighs each number differently, to its weights and to the entities."""
    return compiled(name, model_of(name), x, mask)


@eqx.filter_jit
def compiled(name, model, x, mask):
    call = READERS[name][1]

    def weighted(both):
        y = call(*both, mask)
        return jnp.sum(y * jnp.cos(jnp.arange(float(y.size))).reshape(y.shape)), y

    (_, y), grads = eqx.filter_value_and_grad(weighted, has_aux=True)((model, x))
    return y, grads


CROWD = nn.SetEncoder(D, 4, key=jax.random.key(4))


def entities(seed=0, num=S):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(num, D)), jnp.float32)


def assert_close(a, b, tol=1e-6):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, atol=tol, rtol=tol)


@pytest.mark.parametrize("name", READERS)
def test_what_a_masked_slot_holds_changes_nothing_even_if_it_is_nan(name):
    mask = jnp.array([True, True, False, True, False])
    clean, clean_grads = run(name, entities(), mask)
    assert jnp.isfinite(clean).all()
    for junk in (7.0, jnp.nan, jnp.inf, -jnp.inf):
        y, grads = run(name, jnp.where(mask[:, None], entities(), junk), mask)
        np.testing.assert_array_equal(y, clean)
        for a, b in zip(jax.tree.leaves(grads), jax.tree.leaves(clean_grads), strict=True):
            np.testing.assert_array_equal(a, b)
    assert (clean_grads[1][~mask] == 0).all()


@pytest.mark.parametrize("name", ROWS | CHOICES)
def test_a_masked_slot_gives_zeros(name):
    mask = jnp.array([True, True, False, True, False])
    y, _ = run(name, entities(), mask)
    assert (y[~mask] == 0).all()
    assert (y[mask] != 0).all()


@pytest.mark.parametrize("name", READERS)
def test_padding_changes_nothing(name):
    exact, (model_grads, x_grads) = run(name, entities(), None)
    y, (padded_model_grads, padded_x_grads) = run(name, jnp.concatenate([entities(), entities(1, 7)]), jnp.arange(S + 7) < S)
    assert_close(y[:S] if name in ROWS | CHOICES else y, exact)
    assert_close(padded_model_grads, model_grads, tol=1e-5)
    assert_close(padded_x_grads[:S], x_grads, tol=1e-5)


@pytest.mark.parametrize("name", READERS)
def test_a_mask_that_allows_all_is_no_mask(name):
    assert_close(run(name, entities(), jnp.ones(S, bool)), run(name, entities(), None), tol=1e-5)


@pytest.mark.parametrize("name", ROWS | CHOICES)
def test_entities_in_another_order_give_the_same_in_that_order(name):
    order = jnp.array([3, 0, 4, 1, 2])
    mask = jnp.array([True, True, False, True, True])
    for m, shuffled in ((None, None), (mask, mask[order])):
        assert_close(run(name, entities()[order], shuffled)[0], run(name, entities(), m)[0][order])


@pytest.mark.parametrize("name", [name for name in POOLS if name != "picks"])  # whose earlier choices are numbers of entities
def test_pools_do_not_know_the_order(name):
    order = jnp.array([3, 0, 4, 1, 2])
    mask = jnp.array([True, True, False, True, True])
    for m, shuffled in ((None, None), (mask, mask[order])):
        assert_close(run(name, entities()[order], shuffled)[0], run(name, entities(), m)[0])


@pytest.mark.parametrize("name", [name for name in READERS if name not in ("looked at", "picks")])
def test_nothing_to_attend_to_gives_zeros_and_zero_gradients(name):
    for x in (entities(), jnp.full((S, D), jnp.nan)):
        y, grads = run(name, x, jnp.zeros(S, bool))
        assert (y == 0).all()
        zero = [leaf for leaf in jax.tree.leaves(grads[0]) if (leaf != 0).any()]
        assert name == "group" or zero == []  # the enemies of "group" are there, but nobody of ours looks at them
        assert (grads[1] == 0).all()


def test_one_row_with_nothing_to_attend_to_gives_zeros_and_the_others_do_not_notice(getkey):
    attention = nn.MultiHeadAttention(D, 2, key=getkey())
    attention = eqx.tree_at(lambda a: (a.qkv.bias, a.out.bias), attention, (jnp.arange(24.0), jnp.ones(D)))  # not even a bias
    mask = jnp.ones((S, S), bool).at[2].set(False)

    @eqx.filter_jit
    @eqx.filter_value_and_grad(has_aux=True)
    def run(both, weights):
        y = both[0](both[1], mask=mask)
        return weights @ y.sum(1), y

    (_, y), grads = run((attention, entities()), 1.0 * (jnp.arange(5) == 2))
    assert (y[2] == 0).all()
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(grads))
    np.testing.assert_allclose(jnp.delete(y, 2, 0), jnp.delete(attention(entities()), 2, 0), atol=1e-5)
    _, grads = run((attention, entities()), jnp.ones(5))
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))


def test_no_entities_at_all_are_nothing_to_attend_to(getkey):
    attention = eqx.tree_at(lambda a: a.out.bias, nn.MultiHeadAttention(D, 2, key=getkey()), jnp.ones(D))
    assert attention(jnp.zeros((0, D))).shape == (0, D)
    assert (attention(entities(), jnp.zeros((0, D))) == 0).all()
    assert (nn.AttentionPool(D, 2, key=getkey())(jnp.zeros((0, D))) == 0).all()
    assert nn.PointerNet(6, D, 4, key=getkey())(QUERY, jnp.zeros((0, D))).shape == (0,)


def test_large_scores_do_not_overflow(getkey):
    attention = nn.MultiHeadAttention(D, 2, key=getkey())
    y, grad = jax.value_and_grad(lambda x: attention(x, mask=jnp.arange(S) < 3).sum())(1e8 * entities())
    assert jnp.isfinite(y)
    assert jnp.isfinite(grad).all()


@pytest.mark.parametrize("name", READERS)
def test_readers_can_be_mapped(name):
    model, call = model_of(name), READERS[name][1]
    xs, masks = jnp.stack([entities(i) for i in range(3)]), jnp.array([[True] * 5, [True, False, True, True, False], [False] * 5])
    ys = jax.jit(jax.vmap(lambda x, mask: call(model, x, mask)))(xs, masks)
    for x, mask, y in zip(xs, masks, ys, strict=True):
        assert_close(y, run(name, x, mask)[0], tol=1e-5)


def loop_attention(attention, query, key_value, mask):
    """Head by head, query by query, key by key."""
    query, key_value = np.asarray(query), np.asarray(key_value)
    weight, bias = np.asarray(attention.qkv.weight), np.asarray(attention.qkv.bias)
    d = D // attention.num_heads
    y = np.zeros((len(query), D))
    for head in range(attention.num_heads):
        part = [slice(i * D + head * d, i * D + (head + 1) * d) for i in range(3)]
        q, k, v = (x @ weight[p].T + bias[p] for x, p in zip((query, key_value, key_value), part, strict=True))
        for i in range(len(query)):
            e = np.array([np.exp(q[i] @ k[j] / np.sqrt(d)) * mask[i, j] for j in range(len(key_value))])
            y[i, head * d : (head + 1) * d] = e @ v / e.sum()
    return y @ np.asarray(attention.out.weight).T + np.asarray(attention.out.bias)


@pytest.mark.parametrize("num_heads", [1, 2, 8])
def test_attention_is_a_weighted_mean_of_values_in_each_head(num_heads, getkey):
    attention = nn.MultiHeadAttention(D, num_heads, key=getkey())
    attention = jax.tree.map(lambda x: x + jnp.sin(jnp.arange(float(x.size))).reshape(x.shape), attention)
    query, key_value = entities(1, 3), entities(2, 4)
    mask = np.array([[1, 0, 1, 1], [0, 1, 0, 0], [1, 1, 1, 1]], bool)
    np.testing.assert_allclose(attention(query, key_value, mask), loop_attention(attention, query, key_value, mask), atol=1e-5)
    whole = np.ones((S, S), bool)
    np.testing.assert_allclose(attention(entities()), loop_attention(attention, entities(), entities(), whole), atol=1e-5)
    np.testing.assert_allclose(attention(entities()), attention(entities(), entities()), atol=1e-5)


def test_a_pool_is_attention_from_its_queries_one_behind_the_other(getkey):
    pool = nn.AttentionPool(D, 3, 2, key=getkey())
    expected = loop_attention(pool.attention, np.asarray(pool.queries), entities(), np.ones((3, S), bool))
    np.testing.assert_allclose(pool(entities()), expected.ravel(), atol=1e-5)
    assert pool(entities()).shape == (24,)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda key: nn.MultiHeadAttention(8, 3, key=key), r"num_heads = 3 must be a divisor of d_model = 8. Choose one of \[1, 2, 4, 8\]"),
        (lambda key: nn.MultiHeadAttention(0, 1, key=key), "d_model = 0 must be a positive integer"),
        (lambda key: nn.AttentionPool(8, 0, key=key), "num_queries = 0 must be a positive integer"),
        (lambda key: nn.TransformerEncoder(8, 2, 0, key=key), "num_layers = 0 must be a positive integer"),
        (lambda key: nn.TransformerBlock(8, 2, 0, key=key), "d_ff = 0 must be a positive integer, or None"),
        (lambda key: nn.GroupTransformer({}, 8, 2, 1, key=key), "looks_at = {} must be one group at least"),
        (lambda key: nn.GroupTransformer({"ally": ("enmy",), "enemy": ()}, 8, 2, 1, key=key), r"looks_at\['ally'\].*mean 'enemy'"),
        (lambda key: nn.GroupTransformer({"ally": "enemy", "enemy": ()}, 8, 2, 1, key=key), "must be a tuple of other groups"),
        (lambda key: nn.GroupTransformer({"ally": ("ally",)}, 8, 2, 1, key=key), "must be a tuple of other groups"),
        (lambda key: nn.PointerNet(0, 4, 5, key=key), "d_in = 0 must be a positive integer"),
        (lambda key: model_of("picks")(QUERY, entities(), 0), "num_picks = 0 must be a positive integer"),
        (lambda key: model_of("picks")(QUERY, entities(), 2, at_least=3), "at_least = 3 must be between 0 and num_picks = 2"),
    ],
)
def test_bad_settings_are_refused(call, said, getkey):
    with pytest.raises(rl.ConfigError, match=said):
        call(getkey())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: model_of("attention")(jnp.ones((5, 7))), r"query has shape \(5, 7\); it must be \[S, 8\]"),
        (lambda: model_of("attention")(entities(), mask=jnp.ones(4, bool)), r"mask is bool \(4,\); it must be bool \(5,\) or \(5, 5\), true = attend"),
        (lambda: model_of("attention")(entities(), mask=jnp.ones(5)), r"mask is float32 \(5,\); it must be bool"),
        (lambda: model_of("attention")(entities(), entities(0, 3), jnp.ones((3, 5), bool)), r"mask is bool \(3, 5\); it must be bool \(3,\) or \(5, 3\)"),
        (lambda: model_of("encoder")(jnp.ones((5, 7))), r"TransformerBlock: x has shape \(5, 7\)"),
        (lambda: model_of("encoder")(entities(), jnp.ones((5, 4), bool)), r"TransformerBlock: mask is bool \(5, 4\)"),
        (lambda: model_of("pool")(jnp.ones((5, 7))), r"AttentionPool: x has shape \(5, 7\)"),
        (lambda: model_of("pool")(entities(), jnp.ones((3, 5), bool)), r"AttentionPool: mask is bool \(3, 5\); it must be bool \(5,\)"),
        (lambda: model_of("group")({"ally": entities()}), r"groups has \['ally'\]; the groups are \['ally', 'enemy'\]"),
        (lambda: model_of("group")({"ally": entities(), "enemy": entities()}, {"alli": None}), r"masks has \['alli'\]; the groups are"),
        (lambda: model_of("group")({"ally": entities(), "enemy": jnp.ones((2, 7))}), r"groups\['enemy'\] has shape \(2, 7\)"),
        (lambda: model_of("group")({"ally": entities(), "enemy": entities()}, {"ally": jnp.ones(4, bool)}), r"masks\['ally'\] is bool \(4,\)"),
        (lambda: model_of("pointer")(jnp.ones(5), entities()), r"PointerNet: query has shape \(5,\); it must be \(6,\)"),
        (lambda: model_of("pointer")(QUERY, jnp.ones((5, 7))), r"PointerNet: keys has shape \(5, 7\); it must be \[S, 8\]"),
        (lambda: model_of("pointer")(QUERY, entities(), jnp.ones(5)), r"PointerNet: mask is float32 \(5,\); it must be bool \(5,\).*or 0 and 1 as integers"),
        (lambda: CROWD(entities(), jnp.ones(5)), r"SetEncoder: mask is float32 \(5,\)"),
        (lambda: model_of("target")(QUERY, jnp.ones((5, 7))), r"TargetAttention: keys has shape"),
        (lambda: model_of("picks")(QUERY, entities(), 2, jnp.ones(4, bool)).mode(), r"PointerSequence: mask is bool \(4,\)"),
    ],
)  # fmt: skip
def test_bad_shapes_are_refused(call, said):
    with pytest.raises(rl.ShapeError, match=said):
        call()


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8])
@pytest.mark.parametrize(
    "read",
    [
        lambda mask: model_of("attention")(entities(), mask=mask),
        lambda mask: model_of("attention")(entities(), mask=jnp.outer(mask, mask)),
        lambda mask: model_of("encoder")(entities(), mask),
        lambda mask: model_of("pool")(entities(), mask),
        lambda mask: CROWD(entities(), mask),
        lambda mask: model_of("group")({"ally": entities(), "enemy": entities(1)}, {"ally": mask, "enemy": mask})["ally"],
        lambda mask: model_of("pointer")(QUERY, entities(), mask),
        lambda mask: model_of("target").logits(QUERY, entities(), mask),
        lambda mask: jnp.stack(model_of("picks")(QUERY, entities(), 4, mask).mode()),
        lambda mask: model_of("picks").pick(QUERY, entities(), jnp.array([0]), mask)[1],
    ],
)
def test_a_mask_of_zeros_and_ones_is_one_of_bools(read, dtype):
    """As a `MultiBinary` observation is: int8."""
    mask = np.array([1, 0, 1, 1, 0])
    np.testing.assert_array_equal(read(mask.astype(dtype)), read(mask.astype(bool)))


def test_what_overflows_is_seen_behind_a_mask_too():
    weights = masked_softmax(jnp.array([[-jnp.inf, 0.0], [0.0, 0.0]]), jnp.array([[True, False], [False, False]]))
    assert bool(jnp.isnan(weights[0, 0]))
    np.testing.assert_array_equal(weights[1], 0)
