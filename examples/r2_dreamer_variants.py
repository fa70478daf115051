"""Four ways to teach a world model what it sees: by painting it, and three that need no decoder. Catch, from 8 x 8 pixels.

python examples/r2_dreamer_variants.py

Expect: 0.9 or more with each (1 is every ball, -1 none) after 8,000 steps. A quarter of an hour on one core; `NAME...` trains only those.
"""

import functools
import time
from collections.abc import Callable
from typing import Any

import rl4jax as rl

rl.setup()

import jax  # noqa: E402
import numpy as np  # noqa: E402

from rl4jax import dreamer  # noqa: E402

CATCH = rl.envs.Catch(rows=8, columns=8)
NUM_STEPS, TRAIN_RATIO = 8_192, 200  # how many steps are played, and how many are learned from for each once learning has begun
RANDOM_STEPS = 3_000  # at first chance plays, long enough to catch something in every column
VARIANTS: dict[str, Callable[..., Any]] = {
    "blurred": functools.partial(dreamer.Decoder, blur=2.0),  # DreamerV3, to which what is painted beside its place is nearly right
    "barlow": dreamer.BarlowTwins,  # R2-Dreamer
    "infonce": dreamer.InfoNCE,
    "prototypes": functools.partial(dreamer.Prototypes, num_prototypes=128, shift=1, frozen_for=300),  # DreamerPro, for small pictures
}


def train(name: str, short: bool, seed: int) -> tuple[float, float]:
    """How well the agent catches in the end, and how many seconds a gradient step took."""
    num_turns = 2 if short else NUM_STEPS // 1024
    env = rl.VecEnv(CATCH, num_envs=4)
    cfg = dreamer.Config(
        lr=rl.Linear(3e-3, 3e-5, TRAIN_RATIO * (NUM_STEPS - RANDOM_STEPS) / 256),
        batch_size=16,
        length=16,
        train_ratio=1 if short else TRAIN_RATIO,
        imagine_from=4,
        capacity=50_000,
        learning_starts=500 if short else RANDOM_STEPS,
        hold=0.5,  # chance that lasts: by steps that cancel out, the outer columns are hardly ever reached
        entropy_coef=0.01,
        free_nats=0.1,
        representation_coef=10 if name in ("blurred", "barlow") else 1,  # two pixels of 64 are lit: to see them has to be worth it
    )
    model_key, key, eval_key = jax.random.split(jax.random.key(seed), 3)
    agent = dreamer.Agent(env, "tiny", VARIANTS[name], key=model_key)
    state = dreamer.init(agent, env, cfg, key=key)

    seconds = 0.0
    for i in range(num_turns):
        start = time.perf_counter()
        state, metrics = jax.block_until_ready(dreamer.train(state, env, cfg, num_updates=16))  # 16 rollouts of 4 x 16 steps
        seconds += time.perf_counter() - start if i else 0.0  # the first turn compiles
        print(f"{name:10}  {1024 * (i + 1):6,} env steps  return {np.nanmean(metrics['rollout/avg_return']):5.2f}", flush=True)

    result = rl.evaluate(state.policy, rl.VecEnv(CATCH, num_envs=100), 100, key=eval_key)
    return float(result.mean), seconds / int(state.num_gradient_steps)


def main(*names: str, short: bool = False, seed: int = 0) -> dict[str, tuple[float, float]]:
    results = {name: train(name, short, seed) for name in names or (["barlow"] if short else VARIANTS)}
    for name, (reached, seconds) in results.items():
        print(f"{name:10}  greedy return {reached:5.2f}, {1000 * seconds:3.0f} ms a gradient step")
    return results


if __name__ == "__main__":
    from start import start

    start(main, __doc__, words="NAME")
