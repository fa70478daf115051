"""PPO on CartPole with CleanRL's settings: 4 environments x 128 steps, 4 epochs x 4 minibatches, two networks of 64-64 tanh.

Every contestant is a process of its own, at its best of one and two threads.
"""

import contextlib
import tempfile

from measure import Row, say, take_turns
from peers.peer import best_of_threads, solve

SEEDS = (0, 1, 2)
CONTESTANTS = {
    "train": ("rl4jax_ppo", "--mode", "train"),
    "loop": ("rl4jax_ppo", "--mode", "loop"),
    "host": ("rl4jax_ppo", "--mode", "host", "--steps", "20480"),
    "sb3": ("sb3_ppo",),
    "rejax": ("rejax_ppo",),
}


def rows() -> list[Row]:
    with contextlib.ExitStack() as stack:
        peers = {}
        for name, (program, *args) in CONTESTANTS.items():
            say(f"PPO: {name}, with one thread and with two")
            peers[name] = stack.enter_context(best_of_threads(program, *args))[0]
        rates = take_turns("PPO", peers)
    unit = "env steps/s"
    return [
        Row("PPO, in-graph CartPole", unit, rates["train"], "Stable-Baselines3, Gymnasium CartPole", rates["sb3"], 25.0),
        Row("PPO, in-graph CartPole", unit, rates["train"], "rejax, gymnax CartPole", rates["rejax"], 1.2),
        Row("PPO, the loop of the README", unit, rates["loop"], "ppo.train, one program", rates["train"], 0.8),
        Row("PPO, Gymnasium CartPole on the host", unit, rates["host"], "Stable-Baselines3, the same environment", rates["sb3"], 3.5),
        *solved(),
    ]


def solved() -> list[Row]:
    """From process start to a mean of 475 over the last 100 training episodes, each library with settings that solve CartPole fast."""
    per_hour = {"cold": [], "warm": [], "sb3": []}
    for seed in SEEDS:
        say(f"CartPole from process start, seed {seed}")
        with tempfile.TemporaryDirectory() as cache:
            for which in ("cold", "warm"):
                per_hour[which].append(3600 / solve("rl4jax_ppo", "--seed", str(seed), "--cache", cache)[1])
        per_hour["sb3"].append(3600 / solve("sb3_ppo", "--seed", str(seed), "--settings", "zoo")[1])
    return [
        Row(
            f"CartPole solved from process start, {what}",
            "per hour",
            per_hour[which],
            "Stable-Baselines3, zoo's settings",
            per_hour["sb3"],
            0.0,
        )
        for which, what in (("cold", "nothing compiled yet"), ("warm", "compilation cache warm"))
    ]
