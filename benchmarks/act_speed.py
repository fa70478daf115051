"""How soon a trained CartPole policy answers one observation: exported, on each runtime, next to `predict` of Stable-Baselines3."""

import contextlib

from measure import Row, say, take_turns
from peers.peer import Peer, best_of_threads

PROMISED = {"onnxruntime": 10.0, "jax": 0.0, "numpy": 0.0}


def rows() -> list[Row]:
    with contextlib.ExitStack() as stack:
        say("acting, one observation at a time")
        peers = {"predict": stack.enter_context(best_of_threads("sb3_act"))[0]}
        peers |= {runtime: stack.enter_context(Peer("rl4jax_act", "--runtime", runtime)) for runtime in PROMISED}
        rates = take_turns("acting", peers)
    return [
        Row(f"act on CartPole, {runtime}", "actions/s", rates[runtime], "SB3's predict", rates["predict"], at_least)
        for runtime, at_least in PROMISED.items()
    ]
