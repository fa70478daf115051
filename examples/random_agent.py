"""The smallest whole program: a random agent in many environments, its returns in a log, and one episode of each as a GIF.

python examples/random_agent.py [ENV ...]         # all built-in environments but the probes, unless named
"""

import argparse
import pathlib

import rl4jax as rl

rl.setup()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

NUM_ENVS, NUM_STEPS = 64, 1000


@jax.jit
def play(env: rl.VecEnv, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The mean return of the episodes that ended, and how many did. `env` is a VecEnv around EpisodeStats."""
    reset_key, run_key = jax.random.split(key)
    state, _ = env.reset(reset_key)

    def one(state, key):
        action_key, step_key = jax.random.split(key)
        keys = jax.random.split(action_key, NUM_ENVS)
        action = jax.vmap(lambda k, m: rl.random_action(env.single_action_space, k, m))(keys, env.action_mask(state))
        state, step = env.step(state, action, step_key)
        ended = step.terminated | step.truncated
        return state, (jnp.where(ended, state.env.last_return, 0.0), ended)

    _, (returns, ended) = jax.lax.scan(one, state, jax.random.split(run_key, NUM_STEPS))
    return returns.sum() / ended.sum(), ended.sum()


def main(names: list[str], folder: pathlib.Path = pathlib.Path("runs/random")) -> None:
    (folder / "log.jsonl").unlink(missing_ok=True)  # JsonLogger appends: a new run, a new log
    with rl.CompositeLogger([rl.PrintLogger(), rl.JsonLogger(folder / "log.jsonl")]) as logger:
        for name in names:
            env = rl.VecEnv(rl.EpisodeStats(rl.make(name)), NUM_ENVS)
            mean_return, episodes = play(env, jax.random.key(0))
            logger.log_metrics({f"{name}/mean_return": mean_return, f"{name}/episodes": episodes}, step=NUM_ENVS * NUM_STEPS)
            frames = rl.record(env, rl.random_act(env.single_action_space), key=jax.random.key(2), max_steps=200)
            rl.write_gif(folder / f"{name}.gif", frames, delay=4 if len(frames) > 60 else 25)
    print(f"Look at {folder}: log.jsonl and one GIF per environment.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="ENV")
    main(parser.parse_args().names or [name for name in rl.envs.BUILT_IN if not name.startswith("Probe")])
