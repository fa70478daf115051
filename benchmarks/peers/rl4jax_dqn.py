"""rl4jax's DQN with one gradient step per env step, in a process of its own like its peer. Runs in `.venv`; spoken to through `peer.py`.

`--mode train`: `dqn.train`, one compiled program; `host`: the same on Gymnasium's CartPole-v1.
"""

import protocol  # noqa: I001  # before the libraries: it keeps their chatter off stdout

import argparse
import os
import sys


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mode", choices=("train", "host"), default="train")
    parser.add_argument("--steps", type=int, default=20_000, help="env steps for each `go`")
    args = parser.parse_args()
    if sys.platform == "linux":  # XLA makes one thread for each core it may use
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])

    import rl4jax as rl

    rl.setup()

    import jax

    from rl4jax import dqn

    env = rl.GymVecEnv("CartPole-v1", num_envs=1) if args.mode == "host" else rl.VecEnv(rl.envs.CartPole(), num_envs=1)
    cfg = dqn.Config(tau=1.0, target_every=500, learning_starts=100, epsilon=0.05, max_grad_norm=10.0)
    state = dqn.init(rl.nn.QNetwork(env, key=jax.random.key(0)), env, cfg, key=jax.random.key(1))

    def train() -> int:
        nonlocal state
        state, metrics = dqn.train(state, env, cfg, args.steps)
        jax.block_until_ready((state.packed.params, metrics))
        return args.steps

    protocol.serve(train)
    return 0


if __name__ == "__main__":
    sys.exit(main())
