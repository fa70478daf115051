"""A million pictures in streams go through a ring on disk, and what is drawn and rewritten all the while is what was put in."""

import pathlib
import shutil
import sys
import time
from typing import Any, NamedTuple

import jax
import numpy as np

from rl4jax.collect.replay.host_sequences import HostSequenceReplay
from tests.collect.replay.disk_pictures import anonymous_kb, pictures

NUM_STREAMS, LENGTH = 4, 16


class Item(NamedTuple):
    picture: Any
    index: Any
    is_first: Any
    latent: Any


def live(num_steps=10**6, batch=400):
    folder = pathlib.Path(sys.argv[1])
    rng, most, start = np.random.default_rng(1), 0, time.perf_counter()
    like = Item(np.zeros((64, 64, 3), np.uint8), np.int64(0), np.bool_(False), np.zeros(512, np.float32))
    try:
        ring = HostSequenceReplay.on_disk(folder, num_steps // NUM_STREAMS, NUM_STREAMS, like, rewritable=("latent",))
        for first in range(0, num_steps, batch):
            index = np.arange(first, first + batch)
            steps = Item(pictures(index), index, rng.random(batch) < 0.01, np.zeros((batch, 512), np.float32))
            ring = ring.add(jax.tree.map(lambda x: x.reshape(batch // NUM_STREAMS, NUM_STREAMS, *x.shape[1:]), steps))
            drawn = ring.sample(4, LENGTH, key=jax.random.key(first))
            items = drawn.items
            assert (np.diff(items.index, axis=0) == NUM_STREAMS).all()
            assert (items.picture == pictures(items.index.ravel()).reshape(items.picture.shape)).all()
            assert np.isin(items.latent[..., 0], (0, *items.index.ravel())).all()
            ring = ring.rewrite(drawn, latent=np.repeat(items.index[..., None], 512, -1).astype(np.float32))
            most = max(most, anonymous_kb())
        assert ring.size == num_steps
        print(f"{time.perf_counter() - start:.0f} s in all, kB of anonymous memory: {most}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
