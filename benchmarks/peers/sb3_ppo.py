"""Stable-Baselines3's PPO on Gymnasium's CartPole-v1 with CleanRL's settings. Runs in `.venv-peers`; spoken to through `peer.py`.

Differs from CleanRL, as shipped: the value loss has no factor 1/2 and takes the clipped error, not the larger of the two; a
truncated episode is bootstrapped.
"""

import time

START = time.perf_counter()

import protocol  # noqa: E402, I001  # before the libraries: it keeps their chatter off stdout

import argparse  # noqa: E402
import os  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # else its second thread spins: many times slower on busy cores

import torch  # noqa: E402  # pyright: ignore[reportMissingImports]
from stable_baselines3 import PPO  # noqa: E402  # pyright: ignore[reportMissingImports]
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402  # pyright: ignore[reportMissingImports]
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402  # pyright: ignore[reportMissingImports]

NUM_ENVS = {"cleanrl": 4, "zoo": 8}
SETTINGS = {
    "cleanrl": {
        "n_steps": 128,
        "batch_size": 128,  # four minibatches
        "n_epochs": 4,
        "learning_rate": 2.5e-4,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "clip_range": 0.2,
        "clip_range_vf": 0.2,
        "ent_coef": 0.01,
    },
    # what rl-baselines3-zoo found to solve CartPole fast; the schedules run out at 100,000 steps
    "zoo": {
        "n_steps": 32,
        "batch_size": 256,
        "n_epochs": 20,
        "learning_rate": lambda left: 1e-3 * left,
        "gamma": 0.98,
        "gae_lambda": 0.8,
        "clip_range": lambda left: 0.2 * left,
        "ent_coef": 0.0,
    },
}
MOST_STEPS = {"cleanrl": 200_000, "zoo": 100_000}


class StopWhenSolved(BaseCallback):
    """Ends training after the rollout at whose end the last 100 episodes have a mean return of 475 or more."""

    def _on_step(self) -> bool:
        return self.n_calls % self.model.n_steps != 0 or not self.solved()

    def solved(self) -> bool:
        returns = [episode["r"] for episode in self.model.ep_info_buffer]
        return len(returns) == 100 and statistics.fmean(returns) >= 475


def make_model(settings: str, seed: int) -> PPO:
    """The networks are `MlpPolicy`'s defaults, which are CleanRL's: apart, 64-64, tanh, orthogonal; Adam with eps 1e-5."""
    envs = make_vec_env("CartPole-v1", NUM_ENVS[settings], seed=seed)
    return PPO("MlpPolicy", envs, vf_coef=0.5, max_grad_norm=0.5, device="cpu", seed=seed, **SETTINGS[settings])


def solve(model: PPO, most_steps: int) -> bool:
    """Train until solved; say the env steps and the seconds since this file's first line, imports included."""
    stop = StopWhenSolved()
    model.learn(most_steps, callback=stop, log_interval=None)
    protocol.say(model.num_timesteps, time.perf_counter() - START)
    return stop.solved()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10_240, help="env steps for each `go`, a multiple of the rollout")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--settings", choices=SETTINGS, default="cleanrl")
    parser.add_argument("--solve", action="store_true", help="train until solved instead; exit code 1 if not within MOST_STEPS")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = make_model(args.settings, args.seed)
    if args.solve:
        return 0 if solve(model, most_steps=MOST_STEPS[args.settings]) else 1

    def train() -> int:
        before = model.num_timesteps
        model.learn(args.steps, reset_num_timesteps=False, log_interval=None)
        return model.num_timesteps - before

    protocol.serve(train)
    return 0


if __name__ == "__main__":
    sys.exit(main())
