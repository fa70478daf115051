"""Stable-Baselines3's ReplayBuffer: batches of 256 from 100,000 transitions. Runs in `.venv-peers`; spoken to through `peer.py`."""

import protocol  # noqa: I001  # before the libraries: it keeps their chatter off stdout

import argparse
import sys

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer  # pyright: ignore[reportMissingImports]

CAPACITY, BATCH = 100_000, 256


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=5000, help="for each `go`")
    args = parser.parse_args()
    torch.set_num_threads(1)  # it has nothing to share out
    rng = np.random.default_rng(0)
    buffer = ReplayBuffer(CAPACITY, spaces.Box(-np.inf, np.inf, (4,), np.float32), spaces.Discrete(2), device="cpu")
    for i in range(CAPACITY):
        obs, next_obs = rng.normal(size=(2, 1, 4)).astype(np.float32)
        buffer.add(obs, next_obs, np.array([i % 2]), np.ones(1, np.float32), np.array([i % 20 == 0]), [{}])

    def sample() -> int:
        for _ in range(args.batches):
            buffer.sample(BATCH)
        return args.batches

    protocol.serve(sample)
    return 0


if __name__ == "__main__":
    sys.exit(main())
