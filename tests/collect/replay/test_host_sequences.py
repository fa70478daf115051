"""Stretches of steps in memory and on disk: as in-graph, and after a checkpoint."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax.collect.replay import host_sequences
from rl4jax.collect.replay.host_sequences import HostSequenceReplay
from rl4jax.collect.replay.sequences import SequenceReplay

WHERE = pytest.mark.parametrize("where", ["memory", "disk", "large disk"])
NUM_STREAMS, CAPACITY, LENGTH = 3, 11, 4


class Item(NamedTuple):
    number: Any  # counts the steps of a stream
    is_first: Any
    mark: Any


LIKE = Item(np.int32(0), np.bool_(False), {"a": np.float32(0)})


def make(where, tmp_path):
    if where == "memory":
        return HostSequenceReplay.empty(CAPACITY, NUM_STREAMS, LIKE, rewritable=("mark",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_sequences, "MOST_IN_CHECKPOINT", 0 if where == "large disk" else 10**5)
        return HostSequenceReplay.on_disk(tmp_path / "ring", CAPACITY, NUM_STREAMS, LIKE, rewritable=("mark",))


def batches(seed, num_adds, share=1.0):
    """Steps of ragged adds, numbered in each stream. With a share below 1 some are left out, all streams alike."""
    rng, count = np.random.default_rng(seed), 0
    for _ in range(num_adds):
        num = int(rng.integers(1, 4))
        valid = np.repeat(rng.random((num, 1)) < share, NUM_STREAMS, 1)
        number = np.full((num, NUM_STREAMS), -1, np.int32)
        number[valid[:, 0]] = count + np.arange(valid[:, 0].sum(), dtype=np.int32)[:, None]
        count += int(valid[:, 0].sum())
        yield Item(number, rng.random((num, NUM_STREAMS)) < 0.25, {"a": number.astype(np.float32)}), valid


def assert_same(ours, theirs):
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


@WHERE
def test_the_same_key_draws_what_it_draws_in_graph(where, tmp_path):
    host, graph = make(where, tmp_path), SequenceReplay.empty(CAPACITY, NUM_STREAMS, jax.tree.map(jnp.asarray, LIKE))
    for i, (items, valid) in enumerate(batches(0, 25, share=0.8)):
        host, graph = host.add(items, valid), graph.add(jax.tree.map(jnp.asarray, items), jnp.asarray(valid))
        assert host.size == int(graph.size)
        assert host.num_stretches(LENGTH) == int(graph.num_stretches(LENGTH))
        if i < 8:
            continue
        assert_same(*(ring.sample(6, LENGTH, key=jax.random.key(i)) for ring in (host, graph)))
        assert_same(*(ring.sample(6, 2, key=jax.random.key(i), within_episodes=True) for ring in (host, graph)))
        (host, ours), (graph, theirs) = (ring.sample_fresh(2, LENGTH, key=jax.random.key(i)) for ring in (host, graph))
        assert_same(ours, theirs)
        assert_same(host.served, graph.served)
        marks = {"a": -np.asarray(ours.items.number, np.float32)}  # the same wherever stretches overlap
        host, graph = host.rewrite(ours, mark=marks), graph.rewrite(theirs, mark=jax.tree.map(jnp.asarray, marks))


@WHERE
def test_a_stream_that_stands_still_loses_its_oldest_steps(where, tmp_path):
    ring = make(where, tmp_path)
    for t in range(60):
        valid = np.array([[True, t < 6, t < 6 or t > 50]])
        number = np.full((1, NUM_STREAMS), t, np.int32)
        ring = ring.add(Item(number, np.zeros((1, NUM_STREAMS), bool), {"a": number.astype(np.float32)}), valid)
    drawn = ring.sample(200, 3, key=jax.random.key(0))
    assert set(drawn.streams.tolist()) == {0, 2}
    assert min(drawn.items.number[0][drawn.streams == 0]) == 49
    np.testing.assert_array_equal(np.diff(drawn.items.number, axis=0), 1)
    np.testing.assert_array_equal(drawn.items.mark["a"], drawn.items.number)


@WHERE
def test_a_run_goes_on_from_its_checkpoint(where, tmp_path):
    ring, steps = make(where, tmp_path), list(batches(1, 30))
    for items, valid in steps[:15]:
        ring = ring.add(items, valid)
    ring, _ = ring.sample_fresh(2, LENGTH, key=jax.random.key(0))
    with ring.checkpointed():
        rl.save(tmp_path / "state.safetensors", ring)

    def rest(ring):
        seen = []
        for i, (items, valid) in enumerate(steps[15:]):
            ring = ring.add(items, valid)
            ring, drawn = ring.sample_fresh(3, LENGTH, key=jax.random.key(i))
            seen.append(jax.tree.map(np.array, drawn))
            if where != "large disk":  # there it stays rewritten
                ring = ring.rewrite(drawn, mark={"a": drawn.items.mark["a"] + 0.5})
        return seen

    whole = rest(ring)  # what is written after the checkpoint is written again
    assert_same(rest(rl.load(tmp_path / "state.safetensors", make(where, tmp_path))), whole)


def test_an_old_view_is_refused(tmp_path):
    ring = make("memory", tmp_path)
    (items, valid), *_ = batches(2, 1)
    ring.add(items, valid)
    with pytest.raises(rl.ConfigError, match="this view is stale"):
        ring.sample(1, 1, key=jax.random.key(0))


def nothing(shape):
    return Item(np.zeros(shape, np.int32), np.zeros(shape, bool), {"a": np.zeros(shape, np.float32)})


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda r: r.sample(2, LENGTH, key=jax.random.key(0)), "length = 4, but the longest stream so far has 0 steps"),
        (lambda r: r.sample(0, 2, key=jax.random.key(0)), "num = 0 must be a positive integer"),
        (lambda r: r.add(nothing((12, 3))), "12 steps at once, but a stream holds 11"),
        (lambda r: r.add(nothing((1, 2))), r"items.number has shape \(1, 2\); it must be \(N, 3\)"),
        (lambda r: r.add(nothing((5, 3))).rewrite(r.add(nothing((1, 3))).sample(1, 1, key=jax.random.key(0)), number=1), "stale"),
        (lambda r: HostSequenceReplay.empty(3, 1, LIKE, rewritable=("is_first",)), "rewritable = .* must be fields of Item"),
        (lambda r: HostSequenceReplay.empty(3, 1, (np.zeros(2),)), "like is a tuple without is_first"),
    ],
)
def test_bad_input(act, message, tmp_path):
    with pytest.raises((rl.ConfigError, rl.ShapeError), match=message):
        act(make("memory", tmp_path))


def test_only_rewritable_fields_are_rewritten(tmp_path):
    ring = make("memory", tmp_path).add(nothing((5, 3)))
    with pytest.raises(rl.ConfigError, match=r"fields = \['number'\] must be the rewritable ones, \['mark'\]"):
        ring.rewrite(ring.sample(1, 1, key=jax.random.key(0)), number=np.zeros((1, 1)))
