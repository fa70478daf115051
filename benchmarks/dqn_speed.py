"""DQN on CartPole: one environment, one gradient step of 32 transitions per env step, a network of 64-64.

Every contestant is a process of its own, at its best of one and two threads.
"""

import contextlib

from measure import Row, say, take_turns
from peers.peer import best_of_threads

CONTESTANTS = {
    "train": ("rl4jax_dqn", "--mode", "train"),
    "host": ("rl4jax_dqn", "--mode", "host", "--steps", "2000"),
    "sb3": ("sb3_dqn",),
}


def rows() -> list[Row]:
    with contextlib.ExitStack() as stack:
        peers = {}
        for name, (program, *args) in CONTESTANTS.items():
            say(f"DQN: {name}, with one thread and with two")
            peers[name] = stack.enter_context(best_of_threads(program, *args))[0]
        rates = take_turns("DQN", peers)
    unit = "env steps/s"
    return [
        Row("DQN, in-graph CartPole", unit, rates["train"], "Stable-Baselines3, Gymnasium CartPole", rates["sb3"], 20.0),
        Row("DQN, Gymnasium CartPole on the host", unit, rates["host"], "Stable-Baselines3, the same environment", rates["sb3"], 4.0),
    ]
