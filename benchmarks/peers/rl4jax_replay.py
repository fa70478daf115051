"""rl4jax's HostReplay: batches of 256 from 100,000 transitions. Runs in `.venv`; spoken to through `peer.py`.

`--mode bits`: random bits for a thousand batches are drawn at once, as a training loop would; `key`: a JAX key for each batch.
"""

import protocol  # noqa: I001  # before the libraries: it keeps their chatter off stdout

import argparse
import sys
from typing import NamedTuple

import rl4jax as rl

rl.setup()

import jax  # noqa: E402
import numpy as np  # noqa: E402

CAPACITY, BATCH, AHEAD = 100_000, 256, 1000


class Transition(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    next_obs: np.ndarray
    terminated: np.ndarray


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=("bits", "key"), default="bits")
    parser.add_argument("--batches", type=int, default=5000, help="for each `go`, a multiple of 1,000")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    obs, next_obs = rng.normal(size=(2, CAPACITY, 4)).astype(np.float32)
    index = np.arange(CAPACITY, dtype=np.int32)
    transitions = Transition(obs, index % 2, np.ones(CAPACITY, np.float32), next_obs, index % 20 == 0)
    replay = rl.HostReplay.empty(CAPACITY, like=jax.tree.map(lambda x: x[0], transitions)).add(transitions)
    keys = list(jax.random.split(jax.random.key(0), AHEAD))

    def sample() -> int:
        for turn in range(args.batches // AHEAD):
            if args.mode == "bits":
                for bits in np.asarray(jax.random.bits(keys[turn], (AHEAD, BATCH))):
                    replay.sample_with(bits)
            else:
                for key in keys:
                    replay.sample(BATCH, key=key)
        return args.batches

    protocol.serve(sample)
    return 0


if __name__ == "__main__":
    sys.exit(main())
