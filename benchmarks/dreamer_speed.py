"""Gradient steps of Dreamer next to the same in plain PyTorch, and what the representations cost on pictures.

Every contestant is a process of its own, at its best of one and two threads; representations all have two.
Batches are the published ones, 16 stretches of 64 steps.
"""

import contextlib

from measure import Row, say, take_turns
from peers.peer import Peer, best_of_threads

SIZES = {"tiny": 1.5, "1m": 1.0}
PROGRAMS = ("rl4jax_dreamer", "torch_dreamer")
REPRESENTATIONS = ("decoder", "blurred", "barlow", "infonce", "prototypes")
UNIT = "gradient steps/s"


def rows() -> list[Row]:
    return [*(row(size, at_least) for size, at_least in SIZES.items()), *representation_rows()]


def row(size: str, at_least: float) -> Row:
    with contextlib.ExitStack() as stack:
        say(f"Dreamer {size}, with one thread and with two")
        peers = {program: stack.enter_context(best_of_threads(program, "--size", size))[0] for program in PROGRAMS}
        rates = take_turns(f"Dreamer {size}", peers)
    return Row(f"Dreamer {size}, CartPole", UNIT, rates["rl4jax_dreamer"], "PyTorch", rates["torch_dreamer"], at_least)


def representation_rows() -> list[Row]:
    """Against the decoder; nothing is promised."""
    with contextlib.ExitStack() as stack:
        say("Dreamer's representations")
        args = ("--env", "Catch", "--threads", "2", "--passes", "2", "--representation")
        peers = {name: stack.enter_context(Peer("rl4jax_dreamer", *args, name)) for name in REPRESENTATIONS}
        rates = take_turns("Dreamer's representations", peers)
    decoder = rates.pop("decoder")
    return [Row(f"Dreamer tiny, 16 x 16 pixels, {name}", UNIT, rate, "decoder", decoder, 0.0) for name, rate in rates.items()]
