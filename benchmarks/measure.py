"""Side-by-side timing: contestants take turns in the same minute on the same machine, and only their ratio is a claim."""

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable, Mapping

from peers.peer import Peer

NUM_ROUNDS = 5


@dataclasses.dataclass(frozen=True)
class Row:
    """One comparison: what was asked of it, and what came out of each round, in units per second."""

    name: str
    unit: str
    ours: list[float]
    peer_name: str
    peer: list[float]
    at_least: float  # the ratio we promise; 0 if none

    @property
    def ratio(self) -> float:
        """The median of the rounds' own ratios: what slows the machine down for a minute slows both sides of a round."""
        return statistics.median(ours / peer for ours, peer in zip(self.ours, self.peer, strict=True))


def compare(name: str, *, unit: str, ours: Callable[[], int], peer_name: str, peer: Callable[[], int], at_least: float) -> Row:
    """Each function does some work and says how many units it was. One warm-up each, then five rounds by turns."""
    say(name)
    ours()
    peer()
    rates = {"ours": [], "peer": []}
    for _ in range(NUM_ROUNDS):
        for side, work in (("ours", ours), ("peer", peer)):
            start = time.perf_counter()
            done = work()
            rates[side].append(done / (time.perf_counter() - start))
    return Row(name, unit, rates["ours"], peer_name, rates["peer"], at_least)


def take_turns(what: str, peers: Mapping[str, Peer]) -> dict[str, list[float]]:
    """The rates of peers that are ready, five rounds by turns."""
    rates = {name: [] for name in peers}
    for i in range(NUM_ROUNDS):
        say(f"{what}: round {i + 1} of {NUM_ROUNDS}")
        for name, peer in peers.items():
            rates[name].append(peer.go())
    return rates


def say(what: str) -> None:
    """Progress, on stderr."""
    print(f"{time.strftime('%H:%M:%S')}  {what}", file=sys.stderr, flush=True)
