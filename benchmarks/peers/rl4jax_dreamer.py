"""Gradient steps of rl4jax's Dreamer, each on stretches that are given. Runs in `.venv`; spoken to through `peer.py`.

`--env CartPole`: as in `torch_dreamer.py`. `--env Catch`: pictures of 16 x 16 pixels, for the cost of each `--representation`.
"""

import protocol  # noqa: I001  # before the libraries: it keeps their chatter off stdout

import argparse
import os
import sys


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--size", choices=("tiny", "1m"), default="tiny")
    parser.add_argument("--env", choices=("CartPole", "Catch"), default="CartPole")
    parser.add_argument("--representation", default="decoder")
    parser.add_argument("--passes", type=int, default=5, help="gradient steps for each `go`")
    args = parser.parse_args()
    if sys.platform == "linux":  # XLA makes one thread for each core it may use
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])

    import rl4jax as rl

    rl.setup()

    import jax
    import jax.numpy as jnp

    from rl4jax import dreamer
    from rl4jax.algo.dreamer.learning import learn

    env = rl.VecEnv({"CartPole": rl.envs.CartPole(), "Catch": rl.envs.Catch(16, 16)}[args.env], num_envs=1)
    cfg = dreamer.Config(capacity=2_000)
    agent = dreamer.Agent(env, args.size, args.representation, key=jax.random.key(0))
    state = dreamer.init(agent, env, cfg, key=jax.random.key(1))
    print(f"{sum(x.size for x in jax.tree.leaves(state.packed.params)):,} weights", file=sys.stderr)
    steps = (1 + cfg.length, cfg.batch_size)
    moment = dreamer.moment_like(agent, env)
    moments = jax.tree.map(lambda x: jnp.ones((*steps, *x.shape), x.dtype), moment)
    chance = jax.random.uniform(jax.random.key(2), (2, *steps)) < 0.05
    moments = moments._replace(is_first=chance[0], is_last=jnp.zeros(steps, bool), is_terminal=chance[1])
    learner = state.learner

    @jax.jit
    def gradient_steps(learner):
        def one(learner, number):
            learner, _, metrics = learn(learner, moments, cfg, None, lambda x: x, number, key=jax.random.key(number))
            return learner, metrics["train/skipped"]

        return jax.lax.scan(one, learner, jnp.arange(args.passes))

    def work() -> int:
        nonlocal learner
        learner, skipped = jax.block_until_ready(gradient_steps(learner))
        assert not skipped.any()
        return args.passes

    protocol.serve(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
