"""A million pictures go through a ring on disk, and what is drawn all the while is what was put in."""

import pathlib
import re
import shutil
import sys
import time

import numpy as np

from rl4jax.collect import DiskReplay


def anonymous_kb():
    """The memory of this process that is not the cache of a file."""
    return int(re.search(r"RssAnon:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text())[1])


NOISE = np.random.default_rng(0).integers(0, 256, (257, 64, 64, 3), dtype=np.uint8)


def pictures(index):
    """No two alike: each is its number, and noise that belongs to it."""
    picture = NOISE[index % 257]
    picture.reshape(len(index), -1)[:, :8] = index[:, None].view(np.uint8)
    return picture


def live(num_items=10**6, capacity=10**6, batch=500):
    folder = pathlib.Path(sys.argv[1])
    rng, most, start, drawing = np.random.default_rng(1), 0, time.perf_counter(), 0.0
    try:
        ring = DiskReplay(folder, capacity, {"picture": np.zeros((64, 64, 3), np.uint8), "index": np.int64(0)})
        for first in range(0, num_items, batch):
            index = np.arange(first, first + batch)
            ring = ring.add({"picture": pictures(index), "index": index})
            before = time.perf_counter()
            items = ring.sample_with(rng.integers(0, 2**32, 64, dtype=np.uint32)).items
            drawing += time.perf_counter() - before
            assert (items["index"] < ring.count).all()
            assert (items["picture"] == pictures(items["index"])).all()
            most = max(most, anonymous_kb())
        assert ring.size == min(num_items, capacity)
        on_disk = sum(path.stat().st_blocks * 512 for path in folder.iterdir())
        print(f"{time.perf_counter() - start:.0f} s in all, {drawing / (num_items // batch) * 1e3:.2f} ms for 64 drawn,", end=" ")
        print(f"{on_disk / 1e9:.2f} GB on disk, kB of anonymous memory: {most}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
