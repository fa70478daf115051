"""Both sum trees against an array of priorities and a running sum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings, strategies as st

from rl4jax.collect.replay import HostPrioritizedReplay, PrioritizedReplay, host_sum_tree, sum_tree

CAPACITIES = [1, 16, 300]  # one level with one slot, one full level, three levels
set_in_graph = jax.jit(sum_tree.set_priority)
find_in_graph = jax.jit(sum_tree.find_slots)


def set_on_host(tree, slots, priority, where):
    host_sum_tree.set_priority(tree, slots[where], np.asarray(priority[where], np.float64))
    return tree


BOTH = pytest.mark.parametrize(
    ("make", "change", "find"),
    [(sum_tree.make_tree, set_in_graph, find_in_graph), (host_sum_tree.make_tree, set_on_host, host_sum_tree.find_slots)],
    ids=["in-graph", "host"],
)


@BOTH
@settings(deadline=None, max_examples=25)
@given(data=st.data(), capacity=st.sampled_from(CAPACITIES))
def test_a_tree_finds_the_slot_whose_part_of_the_whole_holds_the_place(make, change, find, data, capacity):
    want, tree = np.zeros(capacity), make(capacity)
    for _ in range(data.draw(st.integers(1, 3))):
        slots = np.array(data.draw(st.lists(st.integers(0, capacity - 1), min_size=12, max_size=12)))
        priority = np.array(data.draw(st.lists(st.integers(0, 9), min_size=12, max_size=12)), np.float32)  # sums without rounding
        where = np.array(data.draw(st.lists(st.booleans(), min_size=12, max_size=12)))
        tree = change(tree, slots, priority, where)
        for slot in set(slots[where].tolist()):
            want[slot] = priority[where & (slots == slot)].max()  # the larger, if it comes twice
    assert [float(level.sum()) for level in tree] == [want.sum()] * len(tree)
    if want.sum() == 0:
        return
    ends = np.cumsum(want) / want.sum() * 2**32
    near = np.concatenate([ends - 1000, ends, ends + 1000])
    bits = np.concatenate([near[(near >= 0) & (near < 2**32)], np.linspace(0, 2**32 - 1, 4 * 300)])[: 4 * 300].astype(np.uint32)
    found = np.asarray(find(tree, bits))
    assert (want[found] > 0).all()
    assert (bits <= ends[found] + 1000).all()  # of four billion
    assert (bits >= (ends - want / want.sum() * 2**32)[found] - 1000).all()


def test_half_a_million_changes_leave_no_rounding_behind():
    rng, capacity = np.random.default_rng(1), 5000
    tree, want = sum_tree.make_tree(capacity), np.zeros(capacity, np.float32)
    everywhere = np.ones(5000, bool)
    for _ in range(100):
        slots, priority = rng.integers(0, capacity, 5000), 10.0 ** rng.uniform(-6, 3, 5000).astype(np.float32)
        tree = set_in_graph(tree, slots, priority, everywhere)
        order = np.argsort(priority)
        want[slots[order]] = priority[order]
    np.testing.assert_array_equal(np.ravel(tree[0])[:capacity], want)
    np.testing.assert_allclose(sum_tree.total_priority(tree), want.sum(dtype=np.float64), rtol=1e-6)


@BOTH
def test_among_a_million_slots_each_has_its_share_of_all_bits(make, change, find):
    """Every place is tried that belongs to some fifty slots in the middle, of which each has some four thousand."""
    capacity = 10**6
    priority = np.random.default_rng(0).uniform(0.5, 1.5, capacity).astype(np.float32)
    tree = change(make(capacity), np.arange(capacity), priority, np.ones(capacity, bool))
    start = np.uint32(priority[: capacity // 2].sum(dtype=np.float64) / priority.sum(dtype=np.float64) * 2**32)
    found = np.asarray(find(tree, start + np.arange(200_000, dtype=np.uint32)))
    slots, share = np.unique(found, return_counts=True)
    assert (np.diff(slots) == 1).all()
    want = priority[slots].astype(np.float64) / priority.sum(dtype=np.float64) * 2**32
    np.testing.assert_allclose(share[1:-1], want[1:-1], rtol=1e-3)


@BOTH
def test_slots_are_found_as_often_as_their_priorities_say(make, change, find):
    priority = np.random.default_rng(0).exponential(size=300).astype(np.float32)
    tree = change(make(300), np.arange(300), priority, np.ones(300, bool))
    bits = np.random.default_rng(1).integers(0, 2**32, 2**17, dtype=np.uint32)
    seen = np.bincount(np.asarray(find(tree, bits)), minlength=300)
    assert scipy.stats.chisquare(seen, priority / priority.sum(dtype=np.float64) * 2**17).pvalue > 1e-3


@BOTH
def test_a_slot_without_priority_is_never_found(make, change, find):
    capacity = 300
    slots = np.arange(12) * 25 + 3
    priority = np.geomspace(1e-12, 1e12, 12).astype(np.float32)  # sums that lose the small ones
    tree = change(make(capacity), slots, priority, np.ones(12, bool))
    bits = np.concatenate([np.arange(64), 2**32 - 1 - np.arange(64)]).astype(np.uint32)
    assert set(np.asarray(find(tree, bits)).tolist()) <= set(slots.tolist())


@pytest.mark.parametrize("kind", [PrioritizedReplay, HostPrioritizedReplay])
def test_huge_errors_do_not_overflow_the_sum(kind):
    ring = kind.empty(4, like=jnp.int32(0), alpha=1.0).add(np.arange(4, dtype=np.int32))
    ring = ring.reprioritize(np.arange(4), np.full(4, 2e38, np.float32))
    sample = ring.sample_with(np.arange(8, dtype=np.uint32) * np.uint32(2**29))
    np.testing.assert_allclose(sample.probability, 0.25)
    assert sorted(set(np.asarray(sample.slots).tolist())) == [0, 1, 2, 3]
