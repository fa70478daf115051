"""The in-graph ring inside compiled programs."""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax.collect import PrioritizedReplay, Replay
from tests.collect.replay.kinds import assert_same, items_of

LIKE = {"index": jnp.int32(0), "twice": jnp.zeros(2)}


def item(index):
    return {"index": index, "twice": jnp.stack([index, -index], -1).astype(jnp.float32)}


@functools.partial(jax.jit, static_argnames=("num", "length"), donate_argnums=0)
def live(ring, key, num, length):
    """Add ragged batches of up to `num` and draw 8 items after each; count what was lost, doubled or out of order."""
    capacity = ring.capacity

    def step(carry, now):
        ring, count = carry
        valid, bits = now
        index = jnp.where(valid, count + jnp.cumsum(valid) - 1, -1)
        ring, count = ring.add(item(index), valid), count + valid.sum()
        sample = ring.sample_with(bits)
        drawn = sample.items["index"]
        wrong = (drawn < count - capacity) | (drawn >= count) | (sample.slots != drawn % capacity)
        wrong |= (sample.items["twice"] != item(drawn)["twice"]).any(1)
        wrong &= count > 0
        ring = ring.reprioritize(sample.slots, jnp.abs(sample.items["twice"][:, 0]) % 7)
        return (ring, count), (wrong.sum(), count)

    valid_key, bits_key = jax.random.split(key)
    valid = jax.random.bernoulli(valid_key, 0.5, (length, num))
    (ring, _), (wrong, counts) = jax.lax.scan(step, (ring, jnp.int32(0)), (valid, jax.random.bits(bits_key, (length, 8))))
    return ring, wrong.sum(), counts[-1]


@pytest.mark.parametrize("make", [Replay, PrioritizedReplay])
def test_in_a_compiled_scan_nothing_is_lost_doubled_or_out_of_order_after_a_million_items(make, getkey):
    ring, num_wrong, count = live(make.empty(997, LIKE), getkey(), num=16, length=125_500 if make is Replay else 20_000)
    assert count > (10**6 if make is Replay else 150_000)
    assert num_wrong == 0
    assert_same(ring.items(), jax.tree.map(np.asarray, item(jnp.arange(count - 997, count))))


@pytest.mark.parametrize("num", [1, 4])
@pytest.mark.parametrize("make", [Replay, PrioritizedReplay])
def test_a_scan_needs_no_second_ring(make, num, getkey):
    """That the time does not grow with the capacity either is for `make bench` to show."""
    large = jax.eval_shape(lambda: make.empty(10**6, LIKE))
    program = live.lower(large, getkey(), num=num, length=10).compile()
    assert program.memory_analysis().temp_size_in_bytes < 10**6  # the ring has 12 MB, its priorities more than 4


@pytest.mark.parametrize("make", [Replay, PrioritizedReplay])
def test_rings_can_be_vmapped(make, getkey):
    rings = jax.vmap(lambda _: make.empty(5, LIKE))(jnp.arange(3))
    start = jnp.array([0, 100, 200])
    rings = jax.vmap(lambda ring, start: ring.add(item(start + jnp.arange(7))))(rings, start)
    valid = jnp.array([[True], [False], [True]])
    rings = jax.vmap(lambda ring, start, valid: ring.add(item(start[None] + 7), valid))(rings, start, valid)
    for i, first in enumerate([3, 102, 203]):
        assert jax.tree.map(operator.itemgetter(i), rings).items()["index"].tolist() == list(range(first, first + 5))
    sample = jax.vmap(lambda ring, key: ring.sample(4, key=key))(rings, jax.random.split(getkey(), 3))
    assert (sample.items["index"] // 100 == jnp.array([[0], [1], [2]])).all()
    rings = jax.vmap(lambda ring, slots: ring.reprioritize(slots, jnp.ones(4)))(rings, sample.slots)
    assert rings.size.tolist() == [5, 5, 5]


@pytest.mark.parametrize("make", [Replay, PrioritizedReplay])
def test_the_old_ring_stays_as_it_was(make):
    ring = make.empty(5, LIKE).add(item(jnp.arange(4)))
    ring.add(item(jnp.arange(10, 13))).reprioritize(jnp.arange(3), jnp.ones(3))
    assert ring.items()["index"].tolist() == [0, 1, 2, 3]
    assert ring.add(item(jnp.zeros(0, jnp.int32))) is ring


def test_only_what_needs_no_size_works_inside_jit():
    ring = Replay.empty(5, LIKE).add(item(jnp.arange(4)))
    for verb, call in {"items": Replay.items, "group_by": lambda ring: ring.group_by(lambda items: items["index"])}.items():
        with pytest.raises(rl.ShapeError, match=rf"Replay.{verb}: the size is not known inside jit"):
            jax.jit(call)(ring)
    assert jax.jit(Replay.at)(ring, jnp.array([[3], [1]]))["index"].tolist() == [[3], [1]]
    empty = jax.jit(lambda ring: ring.sample_with(jnp.arange(3, dtype=jnp.uint32)))(Replay.empty(5, LIKE))
    assert_same(empty.items, jax.tree.map(jnp.zeros_like, item(jnp.arange(3))))  # where no error can be raised


def test_an_item_may_be_a_picture_without_a_dict():
    ring = Replay.empty(2, np.zeros((2, 3), np.uint8)).add(items_of(range(3))["image"])
    np.testing.assert_array_equal(ring.items(), items_of([1, 2])["image"])
