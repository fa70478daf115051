"""Rings outside of JAX: views, and a long life in memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax.collect import HostReplay
from tests.collect.replay.host_life import live
from tests.collect.replay.kinds import KINDS, ON_HOST, Model, assert_holds, assert_same, items_of
from tests.fresh_process import run

VERBS = {
    "add": lambda ring: ring.add(items_of([99])),
    "sample": lambda ring: ring.sample_with(np.zeros(1, np.uint32)),
    "at": lambda ring: ring.at(np.array([0])),
    "items": lambda ring: ring.items(),
    "group_by": lambda ring: ring.group_by(lambda items: items["index"]),
    "reprioritize": lambda ring: ring.reprioritize(np.array([0]), np.ones(1)),
    "checkpointed": lambda ring: ring.checkpointed().__enter__(),
}


@pytest.mark.parametrize("kind", ON_HOST)
def test_a_view_that_was_added_to_raises_and_changes_nothing(kind, tmp_path):
    old, model = KINDS[kind](5, tmp_path / "ring"), Model(5)
    old = old.add(items_of(model.add(np.ones(4, bool))))
    new = old.add(items_of(model.add(np.ones(3, bool))))
    for verb, use in VERBS.items():
        if "Prioritized" not in kind and verb == "reprioritize":
            assert use(old) is old  # nothing is read or written
        else:
            with pytest.raises(rl.ConfigError, match=r"stale: it knows \d+ changes of its ring, which has seen \d+. Go on with"):
                use(old)
    assert_holds(new, model)


@pytest.mark.parametrize("kind", [kind for kind in ON_HOST if "Prioritized" in kind])
def test_a_view_that_was_reprioritised_raises(kind, tmp_path):
    old = KINDS[kind](5, tmp_path / "ring").add(items_of(range(4)))
    new = old.reprioritize(np.array([0]), np.array([3.0]))
    with pytest.raises(rl.ConfigError, match=r"HostPrioritizedReplay.sample: this view is stale"):
        old.sample(3, key=jax.random.key(0))
    with pytest.raises(rl.ConfigError, match=r"reprioritize: slots go from 0 to 4; they must be in \[0, 4\), where items are"):
        new.reprioritize(np.array([0, 4]), np.array([3.0, 1.0]))
    assert_same(new.items(), items_of(range(4)))


@pytest.mark.parametrize("kind", ON_HOST)
def test_a_copy_by_tree_map_shares_the_ring_and_is_told_so(kind, tmp_path):
    ring = KINDS[kind](5, tmp_path / "ring").add(items_of(range(4)))
    same = jax.tree.map(lambda x: x, ring)
    same.add(items_of([4]))
    with pytest.raises(rl.ConfigError, match="stale"):
        ring.add(items_of([5]))


@pytest.mark.parametrize("kind", ON_HOST)
def test_a_ring_of_the_host_refuses_to_be_traced(kind, tmp_path):
    ring = KINDS[kind](5, tmp_path / "ring").add(items_of(range(4)))
    with pytest.raises(
        rl.ShapeError, match=r"this ring lives outside of JAX, and its arrays are being traced. Use it outside of jit, or use Replay"
    ):
        jax.jit(lambda ring: ring.sample_with(jnp.zeros(3, jnp.uint32)))(ring)
    assert "size=4, capacity=5" in repr(ring)


@pytest.mark.parametrize("kind", ON_HOST)
def test_slots_without_items_are_named(kind, tmp_path):
    ring = KINDS[kind](5, tmp_path / "ring").add(items_of(range(4)))
    for slots in ([0, 4], [-1, 2]):
        with pytest.raises(rl.ConfigError, match=r"Replay.at: slots go from .* they must be in \[0, 4\), where items are"):
            ring.at(np.array(slots))
    assert_same(ring.at(np.array([[3], [0]])), jax.tree.map(lambda x: x[:, None], items_of([3, 0])))


def test_sampled_items_are_copies():
    ring = HostReplay.empty(3, np.float32(0)).add(np.ones(3, np.float32))
    ring.sample_with(np.zeros(3, np.uint32)).items[:] = 7
    ring.items()[:] = 7
    assert ring.items().tolist() == [1, 1, 1]


def test_a_restored_ring_shares_nothing_with_the_one_that_was_saved(tmp_path):
    ring = HostReplay.empty(3, np.float32(0)).add(np.arange(3, dtype=np.float32))
    rl.save(tmp_path / "ring.safetensors", ring)
    restored = rl.load(tmp_path / "ring.safetensors", like=HostReplay.empty(3, np.float32(0)))
    assert restored.add(np.array([9], np.float32)).items().tolist() == [1, 2, 9]
    assert ring.add(np.array([5], np.float32)).items().tolist() == [1, 2, 5]
    with pytest.raises(rl.CheckpointError, match=r"differs: storage is float32\[3\] in the file and float32\[4\] in `like`"):
        rl.load(tmp_path / "ring.safetensors", like=HostReplay.empty(4, np.float32(0)))


def test_after_a_million_items_nothing_is_lost_doubled_or_out_of_order():
    assert live(10**6, longest=1000) > 1900


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_after_a_million_adds_and_samples_nothing_is_lost_doubled_or_out_of_order():
    program = "from tests.collect.replay.host_life import live; print(live(25 * 10**5, longest=6))"
    out = run(program, timeout=1200)  # where types are not checked on every call
    assert int(out.stdout) > 990_000, out.stderr
