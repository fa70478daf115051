"""A run with a ring on disk that goes on from its newest checkpoint, whatever killed it. Used as a program and as a module.

What each step adds and draws depends on its number only, so that an interrupted run must end like one that was left alone.
"""

import sys
import zlib

import numpy as np

import rl4jax as rl
from rl4jax.collect import DiskReplay, HostPrioritizedReplay

CAPACITY = 300
LIKE = {"index": np.int64(0), "image": np.zeros((5, 7), np.uint8)}


def begin(folder, prioritized):
    ring = DiskReplay(f"{folder}/replay", CAPACITY, LIKE, chunk_bytes=43 * 70)
    return {
        "replay": HostPrioritizedReplay.of(ring) if prioritized else ring,
        "step": np.zeros((), np.int64),
        "drawn": np.zeros((), np.uint64),  # a hash of everything that was drawn
    }


def advance(state):
    """One step: a ragged batch in, a ragged batch out."""
    step, replay = int(state["step"]), state["replay"]
    rng = np.random.default_rng([7, step])
    num = int(rng.integers(0, 12))
    index = np.arange(replay.count, replay.count + num)
    image = (index[:, None, None] * 3 + np.arange(35).reshape(5, 7)).astype(np.uint8)
    replay = replay.add({"index": index, "image": image})
    drawn = int(state["drawn"])
    if replay.size:
        sample = replay.sample_with(rng.integers(0, 2**32, int(rng.integers(1, 9)), dtype=np.uint32))
        for x in (sample.items["index"], sample.items["image"], sample.slots, sample.probability):
            drawn = zlib.crc32(x.tobytes(), drawn)
        replay = replay.reprioritize(sample.slots, sample.items["index"] % 11 + 0.5)
    return {"replay": replay, "step": np.array(step + 1), "drawn": np.array(drawn, np.uint64)}


def live(folder, num_steps, checkpoint_every, prioritized, say=lambda step: None):
    """From the newest checkpoint, or from the start, to the last step."""
    run_dir = rl.RunDir(folder, keep=2)
    found = run_dir.latest(begin(folder, prioritized))
    state = begin(folder, prioritized) if found is None else found[1]
    say(int(state["step"]))
    while int(state["step"]) < num_steps:
        state = advance(state)
        step = int(state["step"])
        if step % checkpoint_every == 0 or step == num_steps:
            with state["replay"].checkpointed():
                run_dir.save(step, state)
        if step % 10 == 0:
            say(step)
    return state


if __name__ == "__main__":
    folder, num_steps, checkpoint_every, prioritized = sys.argv[1:]
    live(folder, int(num_steps), int(checkpoint_every), prioritized == "prioritized", lambda step: print(step, flush=True))
