"""Batches of 256 from 100,000 transitions in memory (observations of four floats, action, reward, terminated), next to a peer.

Each library gives what it gives: Stable-Baselines3 tensors of torch, rl4jax NumPy arrays, slots and probabilities. Drawing the random
numbers is part of it. In-graph the peer is a small ring of our own: what is written in place takes as long in a large one.
"""

import contextlib
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from measure import Row, compare, say, take_turns
from peers.peer import Peer

import rl4jax as rl

CONTESTANTS = {"bits": ("rl4jax_replay", "--mode", "bits"), "key": ("rl4jax_replay", "--mode", "key"), "sb3": ("sb3_replay",)}


def rows() -> list[Row]:
    with contextlib.ExitStack() as stack:
        say("Replay: filling the rings")
        peers = {name: stack.enter_context(Peer(*command)) for name, command in CONTESTANTS.items()}
        rates = take_turns("Replay", peers)
    peer_name = "Stable-Baselines3's ReplayBuffer"
    return [
        Row("HostReplay.sample_with, bits drawn ahead", "batches/s", rates["bits"], peer_name, rates["sb3"], 3.0),
        Row("HostReplay.sample, a key for each batch", "batches/s", rates["key"], peer_name, rates["sb3"], 1.5),
        compare(
            "Replay of 1,000,000 in a scan, one in, 32 out",
            unit="steps/s",
            ours=in_graph(1_000_000),
            peer_name="a ring of 1,000",
            peer=in_graph(1000),
            at_least=0.1,  # it is not in the cache of the processor; a ring that is copied would come to 0.002
        ),
    ]


def in_graph(capacity: int, num_steps: int = 50_000) -> Callable[[], int]:
    """A full ring, in which each step adds a transition and draws 32."""
    like = {"obs": jnp.zeros(4), "action": 0, "reward": 0.0, "next_obs": jnp.zeros(4), "terminated": False}

    @functools.partial(jax.jit, donate_argnums=0)
    def run(ring: rl.Replay, key: jax.Array) -> tuple[rl.Replay, jax.Array]:
        def step(ring, now):
            number, bits = now
            item = jax.tree.map(lambda x: jnp.broadcast_to(number, (1, *x.shape[1:])).astype(x.dtype), ring.storage)
            ring = ring.add(item)
            items = ring.sample_with(bits).items
            return ring, jnp.stack([x.sum() for x in jax.tree.leaves(items)])  # all of it is used: nothing is optimised away

        bits = jax.random.bits(key, (num_steps, 32), jnp.uint32)
        return jax.lax.scan(step, ring, (jnp.arange(num_steps), bits))

    ring = rl.Replay.empty(capacity, like)
    ring = ring._replace(size=jnp.int32(capacity))

    def work() -> int:
        nonlocal ring
        ring, _ = jax.block_until_ready(run(ring, jax.random.key(0)))
        return num_steps

    return work
