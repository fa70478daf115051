"""Networks forward and backward next to PyTorch's: LSTM and GRU along time, the transformer over sets of entities.

The sizes are in `peers/torch_nn.py`. Every contestant is a process of its own, at its best of one and two threads.
"""

import contextlib

from measure import Row, say, take_turns
from peers.peer import best_of_threads

NETS = {"lstm": ("LSTM, 128 steps", 1.0), "gru": ("GRU, 128 steps", 1.0), "transformer": ("Transformer encoder, 30 entities", 0.8)}


def rows() -> list[Row]:
    return [row(net, *promise) for net, promise in NETS.items()]


def row(net: str, name: str, at_least: float) -> Row:
    with contextlib.ExitStack() as stack:
        say(f"Networks: {net}, with one thread and with two")
        peers = {program: stack.enter_context(best_of_threads(program, "--net", net))[0] for program in ("rl4jax_nn", "torch_nn")}
        rates = take_turns(f"Networks: {net}", peers)
    return Row(f"{name}, forward and backward", "passes/s", rates["rl4jax_nn"], "PyTorch", rates["torch_nn"], at_least)
