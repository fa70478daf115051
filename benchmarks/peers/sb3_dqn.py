"""Stable-Baselines3's DQN on Gymnasium's CartPole-v1, one gradient step per env step. Runs in `.venv-peers`; spoken to through `peer.py`.

The networks are `MlpPolicy`'s defaults: 64-64, ReLU. Differs from ours, as shipped: Huber loss, Adam with eps 1e-8.
"""

import protocol  # noqa: I001  # before the libraries: it keeps their chatter off stdout

import argparse
import os
import sys

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # else its second thread spins: many times slower on busy cores

import torch  # pyright: ignore[reportMissingImports]
from stable_baselines3 import DQN  # pyright: ignore[reportMissingImports]

SETTINGS = {
    "learning_rate": 1e-4,
    "buffer_size": 10_000,
    "learning_starts": 100,
    "batch_size": 32,
    "tau": 1.0,
    "target_update_interval": 500,
    "train_freq": 1,
    "gradient_steps": 1,
    "exploration_initial_eps": 0.05,
    "exploration_final_eps": 0.05,
    "max_grad_norm": 10.0,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1_000, help="env steps for each `go`")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = DQN("MlpPolicy", "CartPole-v1", device="cpu", seed=0, **SETTINGS)

    def train() -> int:
        before = model.num_timesteps
        model.learn(args.steps, reset_num_timesteps=False, log_interval=None)
        return model.num_timesteps - before

    protocol.serve(train)
    return 0


if __name__ == "__main__":
    sys.exit(main())
