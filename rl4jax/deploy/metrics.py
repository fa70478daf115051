"""What a server may tell Prometheus: counts, and histograms of what it took."""

import bisect
import collections
import threading
import time
from collections.abc import Iterable

import numpy as np


class Histogram:
    """How many observations are at most so large, as Prometheus wants it."""

    def __init__(self, bounds: Iterable[float]):
        self.bounds = sorted(bounds)
        self.counts, self.total = [0] * (len(self.bounds) + 1), 0.0
        self.lock = threading.Lock()

    def observe(self, x: float) -> None:
        with self.lock:
            self.counts[bisect.bisect_left(self.bounds, x)] += 1
            self.total += x

    def samples(self) -> list[str]:
        """What follows the name on each line."""
        with self.lock:
            sums, total = np.cumsum(self.counts).tolist(), self.total
        edges = [*(f"{bound:g}" for bound in self.bounds), "+Inf"]
        buckets = [f'_bucket{{le="{edge}"}} {count}' for edge, count in zip(edges, sums, strict=True)]
        return [*buckets, f"_sum {total:.9g}", f"_count {sums[-1]}"]


class Metrics:
    """What Prometheus may know: requests by path and status, how long they took, batches of `/act`, and for how long it has been so."""

    def __init__(self):
        self.began = time.monotonic()
        self.requests: collections.Counter[tuple[str, int]] = collections.Counter()
        self.seconds = Histogram([0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
        self.sizes = Histogram([2.0**i for i in range(13)])
        self.lock = threading.Lock()

    def count(self, path: str, status: int, seconds: float | None) -> None:
        """An answer; without seconds if nothing of the request was read."""
        with self.lock:
            self.requests[path, status] += 1
        if seconds is not None:
            self.seconds.observe(seconds)

    def text(self) -> str:
        with self.lock:
            requests = sorted(self.requests.items())
        parts = [
            ("rl4jax_requests_total", "counter", "Requests answered.", [f'{{path="{p}",status="{s}"}} {n}' for (p, s), n in requests]),
            ("rl4jax_request_seconds", "histogram", "From the first byte of a request until its answer is ready.", self.seconds.samples()),
            ("rl4jax_batch_size", "histogram", "Observations in a question.", self.sizes.samples()),
            ("rl4jax_uptime_seconds", "gauge", "Since the server was made.", [f" {time.monotonic() - self.began:.3f}"]),
        ]
        heads = {name: f"# HELP {name} {text}\n# TYPE {name} {kind}\n" for name, kind, text, _ in parts}
        return "".join(heads[name] + "".join(f"{name}{sample}\n" for sample in samples) for name, _, _, samples in parts)
