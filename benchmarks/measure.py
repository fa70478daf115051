"""Side-by-side timing: contestants take turns in the same minute on the same machine, and only their ratio is a claim."""

import dataclasses
import statistics
import time
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Row:
    """One comparison: what was asked of it and what came out, in units per second."""

    name: str
    unit: str
    ours: float
    peer_name: str
    peer: float
    at_least: float  # the ratio we promise

    @property
    def ratio(self) -> float:
        return self.ours / self.peer


def compare(name: str, *, unit: str, ours: Callable[[], int], peer_name: str, peer: Callable[[], int], at_least: float) -> Row:
    """Each function does some work and says how many units it was. One warm-up each, then five rounds by turns; medians."""
    ours()
    peer()
    rates = {"ours": [], "peer": []}
    for _ in range(5):
        for side, work in (("ours", ours), ("peer", peer)):
            start = time.perf_counter()
            done = work()
            rates[side].append(done / (time.perf_counter() - start))
    return Row(name, unit, statistics.median(rates["ours"]), peer_name, statistics.median(rates["peer"]), at_least)
