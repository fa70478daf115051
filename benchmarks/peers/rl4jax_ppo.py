"""rl4jax's PPO with CleanRL's settings, in a process of its own like its peers. Runs in `.venv`; spoken to through `peer.py`.

`--mode train`: `ppo.train`, one compiled program; `loop`: collect and update from Python, as in the README; `host`: the same loop on
Gymnasium's CartPole-v1. `--solve` trains until solved with the settings of the command line's preset.
"""

import protocol  # noqa: I001  # before the libraries: it keeps their chatter off stdout

import argparse
import collections
import os
import statistics
import sys

NUM_ENVS, NUM_STEPS = 4, 128


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mode", choices=("train", "loop", "host"), default="train")
    parser.add_argument("--steps", type=int, default=204_800, help="env steps for each `go`, a multiple of 512")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--solve", action="store_true")
    parser.add_argument("--cache", help="folder for compiled programs, with --solve")
    args = parser.parse_args()
    if sys.platform == "linux":  # XLA makes one thread for each core it may use
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])

    import rl4jax as rl

    rl.setup(cache_dir=args.cache)

    import jax

    from rl4jax import ppo

    env = rl.GymVecEnv("CartPole-v1", num_envs=NUM_ENVS) if args.mode == "host" else rl.VecEnv(rl.envs.CartPole(), num_envs=NUM_ENVS)
    num_updates = args.steps // (NUM_ENVS * NUM_STEPS)
    cfg = ppo.Config(lr=rl.Linear(2.5e-3, 0.0, 390)) if args.solve else ppo.Config()
    state = ppo.init(rl.nn.ActorCritic(env, key=jax.random.key(args.seed)), env, cfg, key=jax.random.key(args.seed + 1))

    if args.solve:
        returns = collections.deque(maxlen=100)
        for _ in range(390):
            state, rollout = ppo.collect(state, env, cfg)
            state, _ = ppo.update(state, rollout, cfg)
            returns += rollout.episode_returns()
            if len(returns) == 100 and statistics.fmean(returns) >= 475:
                break
        protocol.say(int(state.num_updates) * NUM_ENVS * NUM_STEPS)
        return 0 if statistics.fmean(returns) >= 475 else 1

    def train() -> int:
        nonlocal state
        if args.mode == "train":
            state, metrics = ppo.train(state, env, cfg, num_updates)
            jax.block_until_ready((state, metrics))
        else:
            for _ in range(num_updates):
                state, rollout = ppo.collect(state, env, cfg)
                state, _ = ppo.update(state, rollout, cfg)
            jax.block_until_ready(state)
        return num_updates * NUM_ENVS * NUM_STEPS

    protocol.serve(train)
    return 0


if __name__ == "__main__":
    sys.exit(main())
