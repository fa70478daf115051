"""Batches of 256 from 100,000 transitions in memory (observations of four floats, action, reward, terminated).

Each library gives what it gives: Stable-Baselines3 tensors of torch, rl4jax NumPy arrays, slots and probabilities. Drawing the random
numbers is part of it.
"""

import contextlib

from measure import NUM_ROUNDS, Row, say
from peers.peer import Peer

CONTESTANTS = {"bits": ("rl4jax_replay", "--mode", "bits"), "key": ("rl4jax_replay", "--mode", "key"), "sb3": ("sb3_replay",)}


def rows() -> list[Row]:
    rates = {name: [] for name in CONTESTANTS}
    with contextlib.ExitStack() as stack:
        say("Replay: filling the rings")
        peers = {name: stack.enter_context(Peer(*command)) for name, command in CONTESTANTS.items()}
        for i in range(NUM_ROUNDS):
            say(f"Replay: round {i + 1} of {NUM_ROUNDS}")
            for name, peer in peers.items():
                rates[name].append(peer.go())
    peer_name = "Stable-Baselines3's ReplayBuffer"
    return [
        Row("HostReplay.sample_with, bits drawn ahead", "batches/s", rates["bits"], peer_name, rates["sb3"], 3.0),
        Row("HostReplay.sample, a key for each batch", "batches/s", rates["key"], peer_name, rates["sb3"], 1.5),
    ]
