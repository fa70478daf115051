"""Many clients at once, some of whose requests are nonsense: `python tests/deploy/serve_load.py URL DIR` asks a running `rl4jax serve DIR`."""

import argparse
import dataclasses
import http.client
import itertools
import json
import threading
import time
import urllib.parse

import numpy as np

from rl4jax import deploy

NONSENSE = {
    "wrong shape": b'{"obs": [0.1, 0.2, 0.3]}',
    "NaN": b'{"obs": [NaN, 0.0, 0.0, 0.0]}',
    "infinity": b'{"obs": [0.0, -Infinity, 0.0, 0.0]}',
    "huge": b'{"obs": [1e300, 0.0, 0.0, 0.0]}',
    "many digits": b'{"obs": [' + b"9" * 3000 + b", 0.0, 0.0, 0.0]}",
    "not JSON": b"obs=0,0,0,0",
    "cut off": b'{"obs": [0.0, 0.0',
    "deep nesting": b'{"obs": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "large batch": b'{"obs": [' + b", ".join([b"[0, 0, 0, 0]"] * 300) + b"]}",
    "a text": b'{"obs": ["' + b"a" * 100_000 + b'", ' + b'"", ' * 10_000 + b'""]}',
}


@dataclasses.dataclass
class Load:
    """What came of it."""

    good: int  # answered, and right
    refused: int  # nonsense that got a 4xx with a reason
    wrong: list[str]  # what should not have happened
    seconds: float
    latencies: np.ndarray  # of each request in seconds

    def __str__(self):
        p50, p99 = np.percentile(self.latencies, [50, 99]) * 1000
        speed = len(self.latencies) / self.seconds
        return f"{self.good} right, {self.refused} refused, {len(self.wrong)} wrong; {speed:.0f} requests/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms"


def questions(policy, num=64, seed=0):
    """Single observations and batches, as bodies of requests, and what the policy says to them."""
    rng, shape = np.random.default_rng(seed), policy.config["observation_space"]["shape"]
    for i in range(num):
        obs = rng.normal(size=(*[(), (2,), (), (32,)][i % 4], *shape)).astype(np.float32)
        said = policy.outputs(obs)
        yield json.dumps({"obs": obs.tolist()}).encode(), {name: None if x is None else np.asarray(x).tolist() for name, x in said.items()}


def run_load(url, asked, num_requests, num_clients=8, every=100):
    """Ask from threads, each with a connection that it keeps; each `every`th request of all is nonsense."""
    place, numbers, nonsense = urllib.parse.urlsplit(url).netloc, itertools.count(), list(NONSENSE.items())
    latencies, wrong, good, refused = np.zeros(num_requests), [], [], []

    def client():
        connection = http.client.HTTPConnection(place, timeout=60)
        while (i := next(numbers)) < num_requests:
            bad = i % every == every - 1
            name, body = nonsense[i // every % len(nonsense)] if bad else ("", asked[i % len(asked)][0])
            began = time.perf_counter()
            try:
                connection.request("POST", "/act", body)
                response = connection.getresponse()
                status, answer = response.status, json.loads(response.read())
            except (OSError, http.client.HTTPException, ValueError) as error:
                wrong.append(f"{name} {error!r}")
                connection.close()
                continue
            latencies[i] = time.perf_counter() - began
            if bad and 400 <= status < 500 and len(answer["error"]) > 10:
                refused.append(name)
            elif not bad and status == 200 and same(answer, asked[i % len(asked)][1]):
                good.append(i)
            else:
                wrong.append(f"{name} {status} {str(answer)[:200]}")
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(num_clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Load(len(good), len(refused), wrong, time.perf_counter() - began, latencies)


def same(answer, wanted):
    return answer == wanted or (
        answer.keys() == wanted.keys()
        and all(np.allclose(answer[k], wanted[k], atol=1e-5) if wanted[k] is not None else answer[k] is None for k in wanted)
    )


def private_memory(pid):
    """Bytes that a process has for itself."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("bundle", metavar="DIR")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=8)
    flags = parser.parse_args()
    load = run_load(flags.url, list(questions(deploy.load(flags.bundle))), flags.requests, flags.clients)
    print(load, *load.wrong[:5], sep="\n")
