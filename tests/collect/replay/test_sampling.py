"""How often each item is drawn, by the chi-square test, and weights that undo it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings, strategies as st

from rl4jax.collect import HostPrioritizedReplay, HostReplay, PrioritizedReplay, Replay, importance_weights

NUM_DRAWS = 2**17
UNIFORM = [Replay, HostReplay]
PRIORITIZED = [PrioritizedReplay, HostPrioritizedReplay]


def p_value(slots, probability):
    """Of the hypothesis that slots were drawn with these probabilities. Stratified draws are closer to them than chance."""
    seen = np.bincount(np.asarray(slots), minlength=len(probability))
    assert (seen[probability == 0] == 0).all()
    return (
        1.0
        if (probability > 0).sum() == 1
        else scipy.stats.chisquare(seen[probability > 0], probability[probability > 0] * seen.sum()).pvalue
    )


@pytest.mark.parametrize("make", UNIFORM)
@pytest.mark.parametrize("num_added", [1, 30, 50, 77])
def test_a_uniform_ring_draws_all_its_items_alike(make, num_added, getkey):
    ring = make.empty(50, np.int32(0)).add(np.arange(num_added, dtype=np.int32))
    sample = ring.sample(NUM_DRAWS, key=getkey())
    size = min(num_added, 50)
    assert p_value(sample.slots, np.where(np.arange(50) < size, 1 / size, 0.0)) > 1e-3
    np.testing.assert_allclose(sample.probability, 1 / size, rtol=1e-6)
    assert len(np.unique(sample.items)) == size


@pytest.mark.parametrize("make", PRIORITIZED)
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_prioritised_ring_draws_by_the_power_of_the_error(make, alpha, getkey):
    error = np.random.default_rng(0).exponential(size=40).astype(np.float32)
    ring = make.empty(50, np.int32(0), alpha=alpha).add(np.arange(40, dtype=np.int32)).reprioritize(np.arange(40), error)
    want = np.append((error.astype(np.float64) + 1e-6) ** alpha, np.zeros(10))
    want /= want.sum()
    bits = np.random.default_rng(0).integers(0, 2**32, (500, 16), dtype=np.uint32)
    draw = jax.jit(lambda bits: ring.sample_with(bits).slots) if make is PrioritizedReplay else lambda bits: ring.sample_with(bits).slots
    assert p_value(np.concatenate([draw(x) for x in bits]), want) > 1e-3
    sample = ring.sample(1000, key=getkey())
    np.testing.assert_allclose(sample.probability, want[np.asarray(sample.slots)], rtol=1e-5)
    assert np.abs(np.bincount(np.asarray(sample.slots), minlength=50) - 1000 * want).max() <= 2
    np.testing.assert_array_equal(sample.items, sample.slots)


@pytest.mark.parametrize("make", PRIORITIZED)
def test_a_new_item_has_the_largest_priority_so_far(make):
    ring = make.empty(4, np.int32(0), alpha=1.0).add(np.arange(3, dtype=np.int32))
    everything = np.arange(64, dtype=np.uint32) * np.uint32(2**26)

    def chances(ring):
        sample = ring.sample_with(everything)
        return dict(zip(np.asarray(sample.items).tolist(), np.asarray(sample.probability, np.float64).round(4).tolist(), strict=True))

    assert chances(ring) == {0: 0.3333, 1: 0.3333, 2: 0.3333}
    ring = ring.reprioritize(np.array([0, 1, 2, 2]), np.array([5.0, -4.0, 1.0, 0.5]))  # the sign does not count, nor the smaller of two
    assert chances(ring) == {0: 0.5, 1: 0.4, 2: 0.1}
    ring = ring.reprioritize(np.array([0]), np.array([1.0]))  # 5 remains the largest so far
    ring = ring.add(np.array([3, 4], np.int32))  # 4 replaces 0
    assert chances(ring) == {1: 0.2667, 2: 0.0667, 3: 0.3333, 4: 0.3333}
    ring = ring.reprioritize(np.array([0, 1]), np.array([np.nan, np.inf]))
    assert chances(ring) == {1: 0.3125, 2: 0.0625, 3: 0.3125, 4: 0.3125}  # not finite: as the largest


@pytest.mark.parametrize("make", PRIORITIZED)
@settings(deadline=None, max_examples=20)
@given(ops=st.lists(st.tuples(st.sampled_from([1, 4, 9]), st.integers(0, 2**32 - 1)), min_size=1, max_size=6))
def test_priorities_follow_their_items_around_the_ring(make, ops):
    """The chance of an item is its own, however often others were replaced around it."""
    ring = make.empty(7, np.int32(0), alpha=1.0)
    priority, largest, count = {}, 1.0, 0
    for num, bits in ops:
        ring = ring.add(np.arange(count, count + num, dtype=np.int32))
        priority |= dict.fromkeys(range(count, count + num), largest)
        count += num
        priority = {i: p for i, p in priority.items() if i >= count - 7}
        sample = ring.sample_with(np.array([bits] * 4, np.uint32))
        total = sum(priority.values())
        for item, probability in zip(np.asarray(sample.items).tolist(), np.asarray(sample.probability), strict=True):
            np.testing.assert_allclose(probability, priority[item] / total, rtol=1e-5)
        error = np.asarray(sample.items) % 5 + 0.5
        ring = ring.reprioritize(sample.slots, error.astype(np.float32))
        for item, e in zip(np.asarray(sample.items).tolist(), error.tolist(), strict=True):
            priority[item] = e + 1e-6
            largest = max(largest, e + 1e-6)


def test_importance_weights_undo_the_bias_of_a_prioritised_sample(getkey):
    value = np.random.default_rng(0).exponential(size=40).astype(np.float32)
    ring = PrioritizedReplay.empty(40, np.float32(0)).add(value).reprioritize(np.arange(40), value)
    sample = ring.sample(2**14, key=getkey())
    assert abs(sample.items.mean() - value.mean()) > 0.2 * value.mean()
    weight = importance_weights(sample.probability, ring.size, beta=1.0)
    assert weight.max() == 1
    np.testing.assert_allclose((weight * sample.items).sum() / weight.sum(), value.mean(), rtol=1e-2)


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_importance_weights_match_the_formula(beta):
    probability = np.array([0.5, 0.01, 0.2], np.float32)
    want = [(30 * float(p)) ** -beta for p in probability]
    np.testing.assert_allclose(importance_weights(probability, 30, beta), np.array(want) / max(want), rtol=1e-5)
    np.testing.assert_allclose(
        jax.jit(importance_weights)(jnp.asarray(probability), jnp.int32(30), beta), np.array(want) / max(want), rtol=1e-5
    )
