"""The smallest whole program: a random agent in many environments, its returns in a log, and one episode as a GIF.

python examples/random_agent.py [ENV ...]         # all built-in environments unless named
"""

import pathlib
import sys

import rl4jax as rl

rl.setup()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

NUM_ENVS, NUM_STEPS = 64, 1000


@jax.jit
def play(env: rl.VecEnv, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The mean return of the episodes that ended, and how many did."""
    reset_key, run_key = jax.random.split(key)
    state, _ = env.reset(reset_key)

    def one(carry, key):
        state, running, total, episodes = carry
        action_key, step_key = jax.random.split(key)
        keys = jax.random.split(action_key, NUM_ENVS)
        action = jax.vmap(lambda k, m: rl.random_action(env.single_action_space, k, m))(keys, env.action_mask(state))
        state, step = env.step(state, action, step_key)
        running = running + step.reward
        ended = step.terminated | step.truncated
        total, episodes = total + jnp.where(ended, running, 0.0).sum(), episodes + ended.sum()
        return (state, jnp.where(ended, 0.0, running), total, episodes), None

    start = (state, jnp.zeros(NUM_ENVS), jnp.zeros(()), jnp.zeros((), jnp.int32))
    (_, _, total, episodes), _ = jax.lax.scan(one, start, jax.random.split(run_key, NUM_STEPS))
    return total / episodes, episodes


def main(names: list[str], folder: pathlib.Path = pathlib.Path("runs/random")) -> None:
    with rl.CompositeLogger([rl.PrintLogger(), rl.JsonLogger(folder / "log.jsonl")]) as logger:
        for name in names:
            env = rl.VecEnv(rl.make(name), NUM_ENVS)
            mean_return, episodes = play(env, jax.random.key(0))
            logger.log_metrics({f"{name}/mean_return": mean_return, f"{name}/episodes": episodes}, step=NUM_ENVS * NUM_STEPS)
            frames = rl.record(env, rl.random_act(env.single_action_space), key=jax.random.key(1), max_steps=200)
            rl.write_gif(folder / f"{name}.gif", frames)
    print(f"Look at {folder}: log.jsonl and one GIF per environment.")


if __name__ == "__main__":
    main(sys.argv[1:] or [name for name in rl.envs.BUILT_IN if not name.startswith("Probe")])
