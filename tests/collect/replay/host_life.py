"""A long life of a ring in memory, in this process or in one of its own."""

import numpy as np

from rl4jax.collect import HostReplay


def live(num_items, longest):
    """Add and sample ragged batches; whatever is drawn must be in the ring, and whole."""
    rng, capacity = np.random.default_rng(0), 997
    ring, count, num_turns = HostReplay.empty(capacity, (np.int32(0), np.zeros(2, np.float32))), 0, 0
    while count < num_items:
        num = int(rng.integers(0, longest))
        index = np.arange(count, count + num, dtype=np.int32)
        ring, count, num_turns = ring.add((index, np.stack([index, -index], 1).astype(np.float32))), count + num, num_turns + 1
        if count:
            sample = ring.sample_with(rng.integers(0, 2**32, int(rng.integers(1, 40)), dtype=np.uint32))
            drawn, twice = sample.items
            assert (drawn >= count - capacity).all()
            assert (drawn < count).all()
            assert (sample.slots == drawn % capacity).all()
            assert (twice == np.stack([drawn, -drawn], 1)).all()
        if num_turns % 100 == 0:
            np.testing.assert_array_equal(ring.items()[0], np.arange(max(count - capacity, 0), count))
    np.testing.assert_array_equal(ring.items()[0], np.arange(count - capacity, count))
    return num_turns
