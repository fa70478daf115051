"""Many runs as one program: `vmap` over seeds and over learning rates. Whole runs, training and evaluation, are one function.

python examples/many_seeds.py

Expect: of three learning rates the largest is best, 500 for each of 8 seeds after 100,000 steps; the others average 437 and 119. The 24
runs take about 45 seconds on one core.
"""

import functools

import rl4jax as rl

rl.setup()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from rl4jax import ppo  # noqa: E402

RATES = jnp.array([1e-5, 1e-4, 1e-3])


@functools.partial(jax.jit, static_argnames="num_updates")
def run(key: jax.Array, lr: jax.Array, num_updates: int) -> jax.Array:
    """The greedy return after one run. Nothing here knows that it is one of many."""
    model_key, init_key, eval_key = jax.random.split(key, 3)
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=4)
    cfg = ppo.Config(lr=rl.Linear(lr, 0.0, num_updates))  # numbers of a Config may be traced
    state = ppo.init(rl.nn.ActorCritic(env, key=model_key), env, cfg, key=init_key)

    def collect_and_update(state, _):
        state, rollout = ppo.collect(state, env, cfg)
        return ppo.update(state, rollout, cfg)

    state, _ = jax.lax.scan(collect_and_update, state, length=num_updates)  # the loop of the other examples; or ppo.train
    return rl.evaluate(state.policy, env, 20, key=eval_key).mean


def main(short: bool = False) -> list[list[float]]:
    num_seeds, num_updates = (2, 2) if short else (8, 195)
    keys = jax.random.split(jax.random.key(0), num_seeds)
    of_rates = jax.vmap(run, in_axes=(None, 0, None))  # learning rates with the same seed ...
    of_seeds = jax.vmap(of_rates, in_axes=(0, None, None))  # ... and all of it for each seed
    returns = of_seeds(keys, RATES, num_updates)  # [seeds, rates]

    print(f"CartPole, greedy return after {num_updates * 512:,} steps, {num_seeds} seeds")
    print("learning rate    mean   worst    best")
    for rate, of_rate in zip(RATES, returns.T, strict=True):
        print(f"{rate:13.1e}  {of_rate.mean():6.1f}  {of_rate.min():6.1f}  {of_rate.max():6.1f}")
    return returns.T.tolist()


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
