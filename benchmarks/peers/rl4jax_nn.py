"""rl4jax's networks, forward and backward. Runs in `.venv`; spoken to through `peer.py`.

The loss is the mean square of all features, its gradient goes to the weights and to the inputs. Sizes are those of `torch_nn.py`.
"""

import protocol  # noqa: I001  # before the libraries: it keeps their chatter off stdout

import argparse
import os
import sys


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--net", choices=("lstm", "gru", "transformer"), default="transformer")
    parser.add_argument("--passes", type=int, default=5, help="for each `go`")
    args = parser.parse_args()
    if sys.platform == "linux":  # XLA makes one thread for each core it may use
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])

    import rl4jax as rl

    rl.setup()

    import jax
    import jax.numpy as jnp

    if args.net == "transformer":
        model = rl.nn.TransformerEncoder(128, num_heads=4, num_layers=2, d_ff=512, key=jax.random.key(0))
        xs = jax.random.normal(jax.random.key(1), (256, 30, 128))
    else:
        model = {"lstm": rl.nn.LSTM, "gru": rl.nn.GRU}[args.net](64, 128, key=jax.random.key(0))
        xs = jax.random.normal(jax.random.key(1), (128, 64, 64))  # time first

    @jax.jit
    @jax.grad
    def grad(both):
        model, xs = both
        features = jax.vmap(model)(xs) if isinstance(model, rl.nn.TransformerEncoder) else model.scan(xs)[0]
        return jnp.mean(features**2)

    def work() -> int:
        for _ in range(args.passes):
            jax.block_until_ready(grad((model, xs)))
        return args.passes

    protocol.serve(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
