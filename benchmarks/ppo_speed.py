"""PPO on CartPole with CleanRL's settings: 4 environments x 128 steps, 4 epochs x 4 minibatches, two networks of 64-64 tanh.

Every contestant is a process of its own, at its best of one and two threads.
"""

import contextlib
import statistics
import tempfile

from measure import Row
from peers.peer import best_of_threads, solve

SEEDS = (0, 1, 2)


def rows() -> list[Row]:
    with contextlib.ExitStack() as stack:
        peers = {
            name: stack.enter_context(best_of_threads(program, *args))[0]
            for name, program, *args in (
                ("train", "rl4jax_ppo", "--mode", "train"),
                ("loop", "rl4jax_ppo", "--mode", "loop"),
                ("host", "rl4jax_ppo", "--mode", "host", "--steps", "20480"),
                ("sb3", "sb3_ppo"),
                ("rejax", "rejax_ppo"),
            )
        }
        rounds = [{name: peer.go() for name, peer in peers.items()} for _ in range(5)]
    rate = {name: statistics.median(taken[name] for taken in rounds) for name in peers}
    unit = "env steps/s"
    return [
        Row("PPO, in-graph CartPole", unit, rate["train"], "Stable-Baselines3, Gymnasium CartPole", rate["sb3"], 25.0),
        Row("PPO, in-graph CartPole", unit, rate["train"], "rejax, gymnax CartPole", rate["rejax"], 1.2),
        Row("PPO, the loop of the README", unit, rate["loop"], "ppo.train, one program", rate["train"], 0.8),
        Row("PPO, Gymnasium CartPole on the host", unit, rate["host"], "Stable-Baselines3, the same environment", rate["sb3"], 3.5),
        *solved(),
    ]


def solved() -> list[Row]:
    """From process start to a mean of 475 over the last 100 training episodes, each library with settings that solve CartPole fast."""
    seconds = {"cold": [], "warm": [], "sb3": []}
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as cache:
            for which in ("cold", "warm"):
                seconds[which].append(solve("rl4jax_ppo", "--seed", str(seed), "--cache", cache)[1])
        seconds["sb3"].append(solve("sb3_ppo", "--seed", str(seed), "--settings", "zoo")[1])
    median = {which: statistics.median(times) for which, times in seconds.items()}
    return [
        Row(
            f"CartPole solved from process start, {what}",
            "per hour",
            3600 / median[which],
            "Stable-Baselines3, zoo's settings",
            3600 / median["sb3"],
            0.0,
        )
        for which, what in (("cold", "nothing compiled yet"), ("warm", "compilation cache warm"))
    ]
