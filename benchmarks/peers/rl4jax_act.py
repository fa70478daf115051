"""One observation, one action: an exported CartPole policy, on a runtime of `rl4jax.deploy`."""

import protocol  # isort: skip  # before the libraries: it keeps their chatter off stdout

import argparse
import itertools
import tempfile

import numpy as np

NUM_CALLS = 2_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runtime", required=True)
    flags = parser.parse_args()
    import rl4jax as rl

    rl.setup()
    import jax

    from rl4jax import deploy

    env = rl.VecEnv(rl.envs.CartPole(), num_envs=4)
    with tempfile.TemporaryDirectory() as folder:
        deploy.export(rl.nn.ActorCritic(env, key=jax.random.key(0)), env, folder)  # 64-64, tanh, as SB3's
        act = deploy.load(folder, flags.runtime)
    seen = itertools.cycle(np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32))

    def many() -> int:
        for obs in itertools.islice(seen, NUM_CALLS):
            act(obs)
        return NUM_CALLS

    protocol.serve(many)


if __name__ == "__main__":
    main()
