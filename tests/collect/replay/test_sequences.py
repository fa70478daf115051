"""Stretches of steps: what a ring of streams hands out, against lists that keep everything."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax.collect.replay.host_sequences import HostSequenceReplay
from rl4jax.collect.replay.sequences import SequenceReplay

NUM_STREAMS, CAPACITY, LENGTH = 3, 11, 4


class Item(NamedTuple):
    number: Any  # counts the steps of a stream
    is_first: Any
    mark: Any = None


LIKE = Item(jnp.int32(0), jnp.array(False))


def filled(seed, num_adds):
    """A ring after adds of ragged sizes, and for each stream where episodes began."""
    rng, replay = np.random.default_rng(seed), SequenceReplay.empty(CAPACITY, NUM_STREAMS, LIKE)
    begun = [[] for _ in range(NUM_STREAMS)]
    for _ in range(num_adds):
        num = int(rng.integers(1, 4))
        valid, is_first = rng.random((num, NUM_STREAMS)) < 0.7, rng.random((num, NUM_STREAMS)) < 0.25
        number = np.full((num, NUM_STREAMS), -1, np.int32)
        for t, b in zip(*np.nonzero(valid), strict=True):
            number[t, b] = len(begun[b])
            begun[b].append(bool(is_first[t, b]))
        replay = replay.add(Item(jnp.asarray(number), jnp.asarray(is_first)), jnp.asarray(valid))
    return replay, begun


def stretches(begun, within_episodes):
    """All that may be drawn: stream and first step."""
    found = set()
    for b, firsts in enumerate(begun):
        for start in range(max(0, len(firsts) - CAPACITY), len(firsts) - LENGTH + 1):
            if not (within_episodes and any(firsts[start + 1 : start + LENGTH])):
                found.add((b, start))
    return found


@pytest.mark.parametrize("num_adds", [6, 25])
@pytest.mark.parametrize("within_episodes", [False, True])
def test_all_stretches_are_drawn_alike_and_nothing_else(num_adds, within_episodes):
    replay, begun = filled(num_adds, num_adds)
    drawn = replay.sample(4000, LENGTH, key=jax.random.key(0), within_episodes=within_episodes)
    np.testing.assert_array_equal(np.diff(drawn.items.number, axis=0), 1)
    places = list(zip(drawn.streams.tolist(), drawn.items.number[0].tolist(), strict=True))
    assert set(places) == stretches(begun, within_episodes)
    counts = np.array([places.count(place) for place in set(places)])
    chi_square = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    assert chi_square < len(counts) + 4 * np.sqrt(2 * len(counts))
    for b, start, firsts in zip(drawn.streams.tolist(), drawn.items.number[0].tolist(), drawn.items.is_first.T.tolist(), strict=True):
        assert firsts == begun[b][start : start + LENGTH]


def test_what_is_fresh_comes_first_and_once():
    replay = SequenceReplay.empty(CAPACITY, 2, LIKE)
    served = []
    for i in range(7):  # 21 steps of each stream
        number = jnp.arange(3 * i, 3 * i + 3, dtype=jnp.int32)[:, None] + jnp.zeros((3, 2), jnp.int32)
        replay = replay.add(Item(number, jnp.zeros((3, 2), bool)))
        if 3 * (i + 1) >= LENGTH:
            replay, drawn = replay.sample_fresh(3, LENGTH, key=jax.random.key(i))
            served += zip(drawn.streams.tolist(), drawn.items.number[0].tolist(), strict=True)
    wanted = {(b, start) for b in range(2) for start in range(0, 21 - LENGTH + 1, LENGTH)}
    assert wanted <= set(served)
    assert int(replay.served[0]) == 20


def test_fields_are_written_back_where_they_were_drawn():
    like = Item(jnp.int32(0), jnp.array(False), jnp.float32(0))
    replay = SequenceReplay.empty(CAPACITY, 2, like)
    number = jnp.arange(14, dtype=jnp.int32)[:, None] * jnp.array([1, 100])
    for half in (number[:7], number[7:]):
        replay = replay.add(Item(half, jnp.zeros_like(half, bool), jnp.zeros(half.shape)))
    drawn = replay.sample(2, LENGTH, key=jax.random.key(3))
    replay = replay.rewrite(drawn, mark=drawn.items.number + 0.5)
    touched = np.asarray(replay.storage.mark) != 0
    np.testing.assert_array_equal(np.asarray(replay.storage.mark)[touched], np.asarray(replay.storage.number)[touched] + 0.5)
    assert touched.sum() == len(set(zip(drawn.rows.ravel().tolist(), np.tile(drawn.streams, LENGTH).tolist(), strict=True)))


def test_it_works_inside_a_scan():
    def step(replay, t):
        replay = replay.add(Item(jnp.full((1, NUM_STREAMS), t, jnp.int32), jnp.zeros((1, NUM_STREAMS), bool)))
        return replay, replay.sample(2, 1, key=jax.random.fold_in(jax.random.key(0), t)).items.number

    replay, numbers = jax.jit(lambda r: jax.lax.scan(step, r, jnp.arange(30)))(SequenceReplay.empty(CAPACITY, NUM_STREAMS, LIKE))
    assert int(replay.size) == CAPACITY * NUM_STREAMS
    assert bool((numbers[:, 0] <= jnp.arange(30)[:, None]).all())


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda r: r.sample(2, LENGTH, key=jax.random.key(0)), "length = 4, but the longest stream so far has 0 steps"),
        (lambda r: r.sample(2, 12, key=jax.random.key(0)), "length = 12"),
        (lambda r: r.sample(0, 2, key=jax.random.key(0)), "num = 0 must be a positive integer"),
        (lambda r: r.add(Item(jnp.zeros((12, 3), jnp.int32), jnp.zeros((12, 3), bool))), "12 steps at once, but a stream holds 11"),
        (lambda r: r.add(Item(jnp.zeros((1, 2), jnp.int32), jnp.zeros((1, 2), bool))), r"items.number has shape \(1, 2\)"),
        (lambda r: SequenceReplay.empty(0, 1, LIKE), "capacity = 0 must be a positive integer"),
    ],
)
@pytest.mark.parametrize("ring", [SequenceReplay, HostSequenceReplay])
def test_bad_input(ring, act, message):
    with pytest.raises((rl.ConfigError, rl.ShapeError), match=message):
        act(ring.empty(CAPACITY, NUM_STREAMS, LIKE))


@pytest.mark.parametrize("ring", [SequenceReplay, HostSequenceReplay])
@pytest.mark.parametrize(
    ("capacity", "like", "message"),
    [
        (0, LIKE, "capacity = 0 must be a positive integer"),
        (3, (jnp.zeros(2),), "like is a tuple without is_first"),
        (3, LIKE._replace(is_first=jnp.float32(0)), "like.is_first = .* must be one bool"),
        (3, LIKE._replace(is_first=jnp.zeros(2, bool)), "like.is_first = .* must be one bool"),
    ],
)
def test_a_step_says_whether_an_episode_begins(ring, capacity, like, message):
    with pytest.raises((rl.ConfigError, rl.ShapeError), match=message):
        ring.empty(capacity, 1, like)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mark": jnp.zeros((2, LENGTH))}, r"mark is float32\[2,4\]; it must be float32\[4,2\], one for each step"),
        ({"mark": jnp.zeros(2)}, r"mark is float32\[2\]; it must be float32\[4,2\]"),
        ({"mark": jnp.zeros((LENGTH, 2), jnp.int32)}, r"mark is int32\[4,2\]; it must be float32\[4,2\]"),
        ({"mark": 1.0}, r"mark is float32\[\]; it must be"),
        ({"is_first": jnp.zeros((LENGTH, 2), bool)}, r"fields = \['is_first'\] must be"),
        ({"price": jnp.zeros((LENGTH, 2))}, r"fields = \['price'\] must be"),
    ],
)
@pytest.mark.parametrize("ring", [SequenceReplay, HostSequenceReplay])
def test_what_is_written_back_is_of_the_steps_that_were_drawn(ring, fields, message):
    like = Item(jnp.int32(0), jnp.array(False), jnp.float32(0))
    replay = ring.empty(CAPACITY, 2, like, *((("mark",),) if ring is HostSequenceReplay else ()))
    replay = replay.add(Item(np.zeros((9, 2), np.int32), np.zeros((9, 2), bool), np.ones((9, 2), np.float32)))
    drawn = replay.sample(2, LENGTH, key=jax.random.key(3))
    with pytest.raises((rl.ConfigError, rl.ShapeError), match=message):
        replay.rewrite(drawn, **fields)
    assert (np.asarray(replay.sample(2, LENGTH, key=jax.random.key(3)).items.mark) == 1).all()


def test_steps_that_do_not_fit_leave_a_ring_on_the_host_as_it_was():
    like = Item(jnp.int32(0), jnp.array(False), jnp.float32(0))
    good = Item(np.zeros((9, 2), np.int32), np.zeros((9, 2), bool), np.ones((9, 2), np.float32))
    replay = HostSequenceReplay.empty(CAPACITY, 2, like, ("mark",)).add(good)
    with pytest.raises(rl.ShapeError, match=r"items.mark has dtype float64; it must be float32"):
        replay.add(good._replace(mark=np.ones((9, 2))))
    assert replay.sample(2, LENGTH, key=jax.random.key(3)).items.number.shape == (LENGTH, 2)
    assert replay.add(good).size > replay.capacity


@pytest.mark.parametrize("ring", [SequenceReplay, HostSequenceReplay])
def test_an_episode_that_is_partly_overwritten_counts_with_what_is_left(ring):
    replay = ring.empty(4, 1, LIKE)
    for number in range(11):
        replay = replay.add(Item(np.full((1, 1), number, np.int32), np.full((1, 1), number in (0, 10))))
    drawn = replay.sample(8, 3, key=jax.random.key(0), within_episodes=True)
    assert (np.asarray(drawn.items.number).T == [7, 8, 9]).all()
    for length in (4, 5):
        with pytest.raises(rl.ConfigError, match=f"length = {length}"):
            replay.sample(8, length, key=jax.random.key(0), within_episodes=True)
