"""Choosing entities: one by a pointer or by target attention, several by a sequence of pointers."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax import nn

Q, K, N = 6, 4, 3


def query_and_keys(num=N, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=Q), jnp.float32), jnp.asarray(rng.normal(size=(num, K)), jnp.float32)


def louder(model, factor):
    """The model with larger weights: it begins almost uniform, which tests little."""
    return jax.tree.map(lambda x: factor * x, model)


def test_a_pointers_score_is_v_tanh_of_query_and_key(getkey):
    pointer = louder(nn.PointerNet(Q, K, 5, key=getkey()), 2.0)
    pointer = eqx.tree_at(lambda p: p.query.bias, pointer, jnp.arange(5.0))
    query, keys = query_and_keys()
    wq, wk, v = np.asarray(pointer.query.weight), np.asarray(pointer.key_weight), np.asarray(pointer.score)
    scores = np.array([v @ np.tanh(np.asarray(query) @ wq + np.arange(5.0) + wk @ np.asarray(key)) for key in keys])
    np.testing.assert_allclose(pointer.logits(query, keys), scores, atol=1e-6)
    np.testing.assert_allclose(pointer(query, keys), np.exp(scores) / np.exp(scores).sum(), atol=1e-6)


@pytest.mark.parametrize(("query_dim", "d"), [(6, 4), (3, 3)])
def test_target_attention_is_a_scaled_product(query_dim, d, getkey):
    target = louder(nn.TargetAttention(query_dim, K, key=getkey()), 10.0)
    query, keys = query_and_keys()
    query = query[:query_dim]
    assert target.query.weight.shape == (query_dim, d)
    scores = [np.asarray(query @ target.query.weight) @ np.asarray(target.key_weight @ key) / np.sqrt(d) for key in keys]
    np.testing.assert_allclose(target.logits(query, keys), scores, atol=1e-5)
    np.testing.assert_allclose(target(query, keys), np.exp(scores) / np.exp(scores).sum(), atol=1e-5)


POINTERS = {"target": lambda key: nn.TargetAttention(Q, K, key=key), "pointer": lambda key: nn.PointerNet(Q, K, 5, key=key)}


@pytest.mark.parametrize("name", POINTERS)
def test_policies_that_point_begin_almost_uniform(name, getkey):
    assert jnp.ptp(POINTERS[name](getkey())(*query_and_keys())) < 0.05


@pytest.mark.parametrize("name", POINTERS)
def test_logits_make_a_distribution_with_the_probabilities(name, getkey):
    pointer = louder(POINTERS[name](getkey()), 5.0)
    query, keys = query_and_keys()
    for mask in (None, jnp.array([True, False, True])):
        pi = nn.Categorical(pointer.logits(query, keys, mask))
        np.testing.assert_allclose(jnp.exp(jax.vmap(pi.log_prob)(jnp.arange(N))), pointer(query, keys, mask), atol=1e-6)
        np.testing.assert_allclose(pointer(query, keys, mask).sum(), 1.0, atol=1e-6)
    nothing = pointer.logits(query, keys, jnp.zeros(N, bool))
    assert jnp.isfinite(nn.Categorical(nothing).entropy())


@pytest.mark.parametrize("name", POINTERS)
def test_gradients_through_masked_logits_are_finite_even_beside_nan(name, getkey):
    pointer = POINTERS[name](getkey())
    query, keys = query_and_keys()
    mask = jnp.array([True, False, True])

    @eqx.filter_jit
    @eqx.filter_grad
    def grad(both):
        pointer, keys = both
        pi = nn.Categorical(pointer.logits(query, keys, mask))
        return pi.log_prob(jnp.int32(2)) + pi.entropy()

    clean, junk = grad((pointer, keys)), grad((pointer, keys.at[1].set(jnp.nan)))
    for a, b in zip(jax.tree.leaves(clean), jax.tree.leaves(junk), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (clean[1][1] == 0).all()


# Several.


@pytest.fixture
def sequence(getkey):
    sequence = louder(nn.PointerSequence(Q, K, 5, key=getkey()), 2.0)
    return eqx.tree_at(lambda s: (s.no_more, s.pointer.score), sequence, (jnp.ones(K), jnp.linspace(-2, 2, 5)))


def every_sequence(num_picks, num=N):
    return jnp.array(list(itertools.product(range(num + 1), repeat=num_picks)), jnp.int32)


@eqx.filter_jit
def probabilities(sequence, picks, mask, at_least):
    query, keys = query_and_keys()

    def one(pick):
        return jnp.exp(sequence(query, keys, picks.shape[1], mask, at_least).log_prob(tuple(pick)))

    return jax.vmap(one)(picks)


def is_proper(picks, allowed, at_least):
    """What a selection may be: no one twice, nobody who is forbidden, nothing behind the end, and no end too early."""
    chosen = [int(i) for i in picks if i < N]
    return (
        len(set(chosen)) == len(chosen)
        and set(chosen) <= set(allowed)
        and all(int(i) < N for i in picks[: len(chosen)])
        and len(chosen) >= min(at_least, len(allowed))
    )


@pytest.mark.parametrize("at_least", [0, 1, 2])
@pytest.mark.parametrize("allowed", [(0, 1, 2), (0, 2), (1,), ()])
def test_the_probabilities_of_all_proper_sequences_sum_to_one(allowed, at_least, sequence):
    picks = every_sequence(2)
    mask = jnp.array([i in allowed for i in range(N)])
    p = probabilities(sequence, picks, mask, at_least)
    proper = np.array([is_proper(pick, allowed, at_least) for pick in picks])
    np.testing.assert_allclose(p.sum(), 1.0, atol=1e-5)
    assert (p[proper] > 0).all()
    assert (p[~proper] == 0).all()


def test_the_probability_of_a_sequence_is_that_of_its_choices_one_after_another(sequence):
    query, keys = query_and_keys()
    rows = np.vstack([keys, sequence.no_more])
    for picks in ((0, 2), (2, 3), (1, 0), (3, 3)):
        p, left, chosen = 1.0, {0, 1, 2, 3}, []
        for pick in picks:
            mean = np.mean([rows[i] for i in chosen], axis=0) if chosen else np.zeros(K)
            scores = np.asarray(sequence.pointer.logits(query + mean @ sequence.chosen_weight, jnp.asarray(rows)))
            e = np.array([np.exp(scores[i]) if i in left else 0.0 for i in range(4)])
            p *= e[pick] / e.sum()
            left = {3} if pick == 3 else left - {pick}
            chosen += [pick] if pick < 3 else []
        got = probabilities(sequence, jnp.array([picks], jnp.int32), None, 0)[0]
        np.testing.assert_allclose(got, p, rtol=1e-4)


def test_samples_come_as_often_as_their_probability_says(sequence, getkey):
    query, keys = query_and_keys()
    mask, num = jnp.array([True, False, True]), 20_000
    draw = jax.jit(jax.vmap(lambda key: jnp.stack(sequence(query, keys, 3, mask).sample(key))))
    drawn = draw(jax.random.split(getkey(), num))
    picks = every_sequence(3)
    expected = np.asarray(probabilities(sequence, picks, mask, 0)) * num
    seen = np.bincount(drawn @ jnp.array([16, 4, 1]), minlength=64)
    assert seen[expected == 0].sum() == 0
    often = expected > 0
    chi_square = ((seen - expected)[often] ** 2 / expected[often]).sum()
    assert chi_square < 3 * often.sum()


def test_the_greedy_sequence_takes_the_best_of_what_is_left(sequence):
    query, keys = query_and_keys()
    picks = [int(i) for i in sequence(query, keys, 3, at_least=3).mode()]
    assert sorted(picks) == [0, 1, 2]
    earlier = jnp.zeros(0, jnp.int32)
    for pick in picks:
        logits, left = sequence.pick(query, keys, earlier, may_stop=False)
        assert pick == int(jnp.argmax(jnp.where(left, logits, -jnp.inf)))
        earlier = jnp.append(earlier, pick)
    logits, left = sequence.pick(query, keys, earlier)
    assert left.tolist() == [False, False, False, True]


def test_what_a_masked_entity_holds_changes_nothing_in_a_sequence(sequence):
    mask, picks = jnp.array([True, False, True]), jnp.array([0, 2], jnp.int32)

    @eqx.filter_jit
    @eqx.filter_grad
    def grad(both):
        sequence, (query, keys) = both
        pi = sequence(query, keys, 2, mask)
        return pi.log_prob(tuple(picks)) + pi.entropy(tuple(picks))

    query, keys = query_and_keys()
    for a, b in zip(*(jax.tree.leaves(grad((sequence, (query, x)))) for x in (keys, keys.at[1].set(jnp.nan))), strict=True):
        np.testing.assert_array_equal(a, b)
