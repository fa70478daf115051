"""One observation, one action: `predict` of Stable-Baselines3's PPO on CartPole. Runs in `.venv-peers`; spoken to through `peer.py`."""

import protocol  # isort: skip  # before the libraries: it keeps their chatter off stdout

import argparse
import itertools

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]

NUM_CALLS = 1_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    model = PPO("MlpPolicy", "CartPole-v1", device="cpu")
    seen = itertools.cycle(np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32))

    def many() -> int:
        for obs in itertools.islice(seen, NUM_CALLS):
            model.predict(obs, deterministic=True)
        return NUM_CALLS

    protocol.serve(many)


if __name__ == "__main__":
    main()
