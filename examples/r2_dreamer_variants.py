"""Four ways to teach a world model what it sees: by painting it, and three that need no decoder. Catch, from 16 x 16 pixels.

python examples/r2_dreamer_variants.py

Expect: 0.9 or more with each (1 is every ball, -1 none) after 20,000 steps, 24,000 with prototypes. An hour and a half on one core;
`NAME...` trains only those.
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

CATCH = rl.envs.Catch(rows=16, columns=16)
PROTOTYPES = functools.partial(dreamer.Prototypes, num_prototypes=512, shift=1, frozen_for=500)  # for pictures this small
VARIANTS: dict[str, tuple[Callable[..., Any], int, float]] = {  # how many steps they play, and how often each is learned from
    "decoder": (dreamer.Decoder, 20_000, 130),  # DreamerV3
    "barlow": (dreamer.BarlowTwins, 20_000, 160),  # R2-Dreamer
    "infonce": (dreamer.InfoNCE, 20_000, 160),
    "prototypes": (PROTOTYPES, 24_000, 96),  # DreamerPro
}
# Small and smooth eyes are best for those without a decoder. To paint single pixels takes larger networks, and more weight on them.
PAINTING: dict[str, Any] = {"representation_coef": 3, "b2": 0.99, "weight_decay": 0.5, "entropy_coef": 0.03}
OTHERS: dict[str, Any] = {"entropy_coef": 0.01, "explore": 0.1}


def train(name: str, short: bool, seed: int) -> tuple[float, float]:
    """How well the agent catches in the end, and how many seconds a gradient step took."""
    representation, num_steps, train_ratio = VARIANTS[name]
    paints = name == "decoder"
    num_turns = 2 if short else num_steps // 1024
    env = rl.VecEnv(CATCH, num_envs=4)
    cfg = dreamer.Config(
        lr=rl.Linear(1.5e-3 if paints else 3e-3, 1e-4, train_ratio * num_steps / 256),
        batch_size=16,
        length=16,
        train_ratio=1 if short else train_ratio,
        imagine_from=4,
        capacity=50_000,
        learning_starts=500,
        hold=0.8,
        dyn_coef=0.3,
        rep_coef=0.03,
        free_nats=0.1,
        **(PAINTING if paints else OTHERS),
    )
    model_key, key, eval_key = jax.random.split(jax.random.key(seed), 3)
    agent = dreamer.Agent(env, "small" if paints else "tiny", representation, key=model_key)
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
