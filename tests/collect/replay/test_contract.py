"""What every kind of ring promises, against a deque."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rl4jax as rl
from rl4jax.collect import HostReplay, Replay
from tests.collect.replay.kinds import KINDS, LIKE, Model, assert_holds, assert_same, folders, items_of

every_kind = pytest.mark.parametrize("kind", KINDS)


@st.composite
def batches(draw):
    """Batches of few different lengths, because in-graph each is compiled once: which of their items are real, or None for all."""
    num = draw(st.sampled_from([0, 1, 3, 8]))
    return num, draw(st.none() | st.lists(st.booleans(), min_size=num, max_size=num))


@every_kind
@settings(deadline=None, max_examples=15)
@given(capacity=st.sampled_from([1, 5]), added=st.lists(batches(), max_size=8))
def test_a_ring_keeps_the_newest_items_in_order(kind, capacity, added, tmp_path_factory):
    ring, model = KINDS[kind](capacity, tmp_path_factory.getbasetemp() / f"ring{next(folders)}"), Model(capacity)
    for num, valid in added:
        chosen = np.ones(num, bool) if valid is None else np.array(valid, bool)
        index = model.add(chosen)
        ring = ring.add(items_of(index), None if valid is None else chosen)
    assert_holds(ring, model)


@every_kind
def test_a_batch_longer_than_the_ring_leaves_its_last_items(kind, tmp_path):
    ring, model = KINDS[kind](5, tmp_path / "ring"), Model(5)
    for num in (3, 17, 1):
        ring = ring.add(items_of(model.add(np.ones(num, bool))))
        assert_holds(ring, model)
    valid = np.arange(17) % 4 != 1
    ring = ring.add(items_of(model.add(valid)), valid)
    assert_holds(ring, model)


@pytest.mark.parametrize("kind", ["HostReplay", "DiskReplay"])
def test_the_same_key_and_the_same_bits_draw_the_same_items_as_in_graph(kind, tmp_path, getkey):
    ring, host = KINDS["Replay"](50, None), KINDS[kind](50, tmp_path / "ring")
    for num in (7, 60, 3):
        ring, host = ring.add(items_of(np.arange(num))), host.add(items_of(np.arange(num)))
        key = getkey()
        a, b = ring.sample(20, key=jax.random.clone(key)), host.sample(20, key=key)
        np.testing.assert_array_equal(a.slots, b.slots)
        np.testing.assert_array_equal(a.probability, b.probability)
        assert_same(b.items, jax.tree.map(np.asarray, a.items))
    assert_same(host.sample_with(jnp.arange(9, dtype=jnp.uint32)).items, jax.tree.map(np.asarray, ring.at(np.arange(9))))


@every_kind
def test_group_by_gives_the_slots_of_each_key_oldest_first(kind, tmp_path):
    ring = KINDS[kind](5, tmp_path / "ring").add(items_of(range(8)))  # 3 to 7 are left, 5 in slot 0
    groups = ring.group_by(lambda items: items["index"] % 2)
    assert {key: slots.tolist() for key, slots in groups.items()} == {1: [3, 0, 2], 0: [4, 1]}
    assert list(groups) == [1, 0]  # in order of first appearance
    for key, slots in groups.items():
        assert (np.asarray(ring.at(slots)["index"]) % 2 == key).all()
    assert KINDS[kind](5, tmp_path / "other").group_by(lambda items: items["index"]) == {}
    with pytest.raises(rl.ShapeError, match=r"group_by: key_of returned shape \(5, 2\); it must be \(5,\)"):
        ring.group_by(lambda items: items["pair"][0])


@every_kind
def test_a_saved_ring_goes_on_as_if_nothing_had_happened(kind, tmp_path, getkey):
    def make():
        return KINDS[kind](5, tmp_path / "ring")

    ring, model = make(), Model(5)
    for num in (3, 8, 1):
        ring = ring.add(items_of(model.add(np.ones(num, bool))))
    ring = ring.reprioritize(np.array([0, 3]), np.array([9.0, 0.5], np.float32))
    rl.save(tmp_path / "state.safetensors", {"replay": ring, "step": 3})
    restored = rl.load(tmp_path / "state.safetensors", like={"replay": make(), "step": 0})["replay"]
    assert_holds(restored, model)
    key = getkey()
    assert_same(restored.sample(64, key=jax.random.clone(key)), ring.sample(64, key=key))
    more = items_of(model.add(np.ones(3, bool)))
    assert_holds(restored.add(more), model)


@every_kind
def test_a_ring_is_a_pytree_that_survives_tree_map(kind, tmp_path):
    ring, model = KINDS[kind](5, tmp_path / "ring"), Model(5)
    ring = ring.add(items_of(model.add(np.ones(7, bool))))
    assert all(isinstance(x, jax.Array | np.ndarray) for x in jax.tree.leaves(ring))
    same = jax.tree.map(lambda x: x, ring)
    assert_holds(same, model)
    in_jax = jax.tree.map(jnp.asarray, same)
    assert_holds(in_jax.add(items_of(model.add(np.ones(2, bool)))), model)
    jax.tree.map(lambda x: "any leaf", ring)


ONE = items_of([1])
WRONG = {
    "another structure": ({"index": ONE["index"]}, r"items are PyTreeDef\({'index': \*}\); they must be PyTreeDef"),
    "another shape": ({**ONE, "image": np.zeros((1, 2, 2), np.uint8)}, r"items.image has shape \(1, 2, 2\); it must be \(N, 2, 3\)"),
    "another dtype": ({**ONE, "index": np.ones(1, np.int16)}, r"items.index has dtype int16; it must be int32, as in `like`. Use .astype"),
    "no batch axis": (LIKE, r"items.image has shape \(2, 3\); it must be \(N, 2, 3\). Give a batch: x\[None\]"),
    "a number": ({**ONE, "index": 3}, r"items.index has shape \(\); it must be \(N,\)"),
    "ragged": ({**ONE, "index": np.ones(2, np.int32)}, "items.index has 2 items, and the leaves before it 1. Give as many of each."),
}


@every_kind
@pytest.mark.parametrize("wrong", WRONG)
def test_items_that_do_not_fit_are_named_and_leave_the_ring_as_it_was(kind, wrong, tmp_path):
    ring, model = KINDS[kind](5, tmp_path / "ring"), Model(5)
    ring = ring.add(items_of(model.add(np.ones(7, bool))))
    items, message = WRONG[wrong]
    with pytest.raises(rl.ShapeError, match=rf"Replay.add: {message}"):
        ring.add(items)
    assert_holds(ring, model)


@every_kind
def test_sampling_says_what_is_wrong(kind, tmp_path):
    ring = KINDS[kind](5, tmp_path / "ring")
    with pytest.raises(rl.ConfigError, match=r"Replay.sample: size = 0 must be at least 1. Add items before sampling."):
        ring.sample(3, key=jax.random.key(0))
    ring = ring.add(ONE)
    with pytest.raises(rl.ConfigError, match=r"Replay.sample: num = 0 must be a positive integer"):
        ring.sample(0, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("like", "message"),
    [
        (None, "like = None has no arrays; give one example item"),
        ({"a": "x"}, "like.a = 'x' must be an array of numbers or a jax.ShapeDtypeStruct."),
        ({"a": np.array(["x"])}, "like.a = .* must be an array of numbers"),
        (jax.random.key(0), r"like = [\s\S]* must be an array of numbers .* Store jax.random.key_data"),
    ],
)
@pytest.mark.parametrize("make", [Replay.empty, HostReplay.empty])
def test_an_example_item_is_a_tree_of_arrays(make, like, message):
    with pytest.raises(rl.ShapeError, match=f"Replay.empty: {message}"):
        make(3, like)


def test_an_example_may_be_numbers_or_shapes_and_items_any_pytree():
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), LIKE)
    assert_same(Replay.empty(3, shapes).add(ONE).items(), ONE)
    assert_same(HostReplay.empty(3, shapes).add(jax.tree.map(jnp.asarray, ONE)).items(), ONE)
    for make in (Replay.empty, HostReplay.empty):
        ring = make(3, (0.0, [1, True], None))
        ring = ring.add((np.ones(2, np.float32), [np.ones(2, np.int32), np.ones(2, bool)], None))
        assert int(ring.size) == 2
        assert ring.items()[2] is None
    assert Replay.empty(2, np.float64(0)).storage.dtype == jnp.float32  # in-graph, as everywhere in JAX
    assert HostReplay.empty(2, np.float64(0)).add(np.array([1 / 3])).items().dtype == np.float64


@every_kind
def test_reprioritize_takes_errors_of_the_items_that_were_drawn(kind, tmp_path, getkey):
    ring = KINDS[kind](5, tmp_path / "ring").add(items_of(range(5)))
    sample = ring.sample(8, key=getkey())
    ring = ring.reprioritize(sample.slots, jnp.abs(jnp.asarray(sample.items["pair"][0][:, 0])))  # no branch for uniform rings
    assert_same(ring.items(), items_of(range(5)))
