"""Networks forward and backward next to PyTorch's: LSTM and GRU along time, the transformer over sets of entities.

The sizes are in `peers/torch_nn.py`. Every contestant is a process of its own, at its best of one and two threads.
"""

import contextlib

from measure import NUM_ROUNDS, Row, say
from peers.peer import best_of_threads

NETS = {"lstm": ("LSTM, 128 steps", 1.0), "gru": ("GRU, 128 steps", 1.0), "transformer": ("Transformer encoder, 30 entities", 0.8)}


def rows() -> list[Row]:
    return [row(net, *promise) for net, promise in NETS.items()]


def row(net: str, name: str, at_least: float) -> Row:
    rates = {"rl4jax_nn": [], "torch_nn": []}
    with contextlib.ExitStack() as stack:
        say(f"Networks: {net}, with one thread and with two")
        peers = {program: stack.enter_context(best_of_threads(program, "--net", net))[0] for program in rates}
        for i in range(NUM_ROUNDS):
            say(f"Networks: {net}, round {i + 1} of {NUM_ROUNDS}")
            for program, peer in peers.items():
                rates[program].append(peer.go())
    return Row(f"{name}, forward and backward", "passes/s", rates["rl4jax_nn"], "PyTorch", rates["torch_nn"], at_least)
