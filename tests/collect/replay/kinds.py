"""Every kind of ring, and items that can be told from one another by any of their parts."""

import collections
import itertools

import jax
import numpy as np

from rl4jax.collect import DiskReplay, HostPrioritizedReplay, HostReplay, PrioritizedReplay, Replay

LIKE = {"index": np.int32(0), "image": np.zeros((2, 3), np.uint8), "pair": (np.zeros(2, np.float32), np.bool_(False))}
PER_CHUNK = 4  # items
ITEM_BYTES = 4 + 6 + 8 + 1


def items_of(index):
    index = np.asarray(index, np.int32)
    image = (index[:, None, None] * 7 + np.arange(6).reshape(2, 3)).astype(np.uint8)
    return {"index": index, "image": image, "pair": (np.stack([index, -index], 1).astype(np.float32), index % 3 == 0)}


def disk(capacity, folder, **settings):
    return DiskReplay(folder, capacity, LIKE, **{"chunk_bytes": PER_CHUNK * ITEM_BYTES, **settings})


KINDS = {
    "Replay": lambda capacity, folder: Replay.empty(capacity, LIKE),
    "PrioritizedReplay": lambda capacity, folder: PrioritizedReplay.empty(capacity, LIKE),
    "HostReplay": lambda capacity, folder: HostReplay.empty(capacity, LIKE),
    "DiskReplay": disk,
    "HostPrioritizedReplay": lambda capacity, folder: HostPrioritizedReplay.empty(capacity, LIKE),
    "HostPrioritizedReplay, on disk": lambda capacity, folder: HostPrioritizedReplay.of(disk(capacity, folder)),
}
ON_HOST = [name for name in KINDS if "Host" in name or "Disk" in name]


class Model:
    """What a ring must be: a deque that knows how many items it was ever given."""

    def __init__(self, capacity):
        self.kept, self.count = collections.deque(maxlen=capacity), 0

    def add(self, valid):
        """The index of each item of a batch: the next number for a real one, and -1 for one that is to be left out."""
        index = np.where(valid, self.count + np.cumsum(valid) - 1, -1)
        self.kept.extend(index[valid].tolist())
        self.count += int(np.sum(valid))
        return index

    def slots(self):
        return [index % self.kept.maxlen for index in self.kept]


def assert_same(got, want):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(x, y, strict=isinstance(x, np.ndarray))


def assert_holds(ring, model):
    """The ring has the items of the model, in its order and in the slots they belong to, and draws nothing else."""
    assert int(ring.size) == len(model.kept)
    assert ring.capacity == model.kept.maxlen
    assert_same(ring.items(), items_of(list(model.kept)))
    if model.kept:
        assert_same(ring.at(np.array(model.slots())), items_of(list(model.kept)))
        sample = ring.sample_with(np.arange(7, dtype=np.uint32) * np.uint32(600_000_007))
        assert_same(sample.items, items_of(sample.items["index"]))
        assert set(np.asarray(sample.items["index"]).tolist()) <= set(model.kept)
        assert_same(ring.at(sample.slots), jax.tree.map(np.asarray, sample.items) if isinstance(sample.slots, np.ndarray) else sample.items)


folders = itertools.count()
