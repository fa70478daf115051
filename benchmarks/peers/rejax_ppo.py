"""rejax's PPO on gymnax's CartPole-v1 with CleanRL's settings. Runs in `.venv-peers`; spoken to through `peer.py`.

rejax's own `train` evaluates as it goes. Here its inner loop, `train_iteration` again and again, is compiled alone: one `go` is
one program on the train state the last one returned, and no evaluation is timed.

Differs from CleanRL, as shipped: `max_grad_norm` clips each number of the gradient, not its norm; actor and critic have an Adam
each, with eps 1e-8; the layers are initialised by LeCun's rule; an episode cut at 500 steps counts as failed.
"""

import protocol  # noqa: I001  # before the libraries: it keeps their chatter off stdout

import argparse
import functools
import os
import sys

NUM_ENVS, NUM_STEPS = 4, 128


def limit_threads(num_threads: int) -> None:
    """XLA has no setting for it, but makes one thread for each core it may use. Call it before JAX is imported."""
    if sys.platform == "linux":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:num_threads])
    os.environ["XLA_FLAGS"] = "--xla_cpu_enable_concurrency_optimized_scheduler=false"  # it can hang on few cores


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=204_800, help="env steps for each `go`, a multiple of 512")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="train once, say the env steps and the mean return of 128 episodes")
    args = parser.parse_args()
    limit_threads(args.threads)

    import jax
    import rejax  # pyright: ignore[reportMissingImports]

    algo = rejax.PPO.create(
        env="CartPole-v1",
        agent_kwargs={"activation": "tanh", "hidden_layer_sizes": (64, 64)},
        num_envs=NUM_ENVS,
        num_steps=NUM_STEPS,
        num_epochs=4,
        num_minibatches=4,
        learning_rate=2.5e-4,
        gamma=0.99,
        gae_lambda=0.95,
        clip_eps=0.2,
        ent_coef=0.01,
        vf_coef=0.5,
        max_grad_norm=0.5,
    )
    num_iterations = args.steps // (NUM_ENVS * NUM_STEPS)

    @functools.partial(jax.jit, donate_argnums=0)
    def iterate(state):
        return jax.lax.fori_loop(0, num_iterations, lambda _, state: algo.train_iteration(state), state)

    state = jax.jit(algo.init_state)(jax.random.key(args.seed))

    def train() -> int:
        nonlocal state
        state = jax.block_until_ready(iterate(state))
        return num_iterations * NUM_ENVS * NUM_STEPS

    if args.check:
        num_steps = train()
        _, returns = algo.eval_callback(algo, state, jax.random.key(1))
        protocol.say(num_steps, float(returns.mean()))
    else:
        protocol.serve(train)
    return 0


if __name__ == "__main__":
    sys.exit(main())
