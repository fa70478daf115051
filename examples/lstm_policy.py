"""A policy with memory: name the symbol that was shown three steps ago.

python examples/lstm_policy.py

Expect: a feed-forward policy guesses (27 % right, chance is 25), whatever it learns; with an LSTM the policy recalls 100 %. 20 seconds
on one core, once compiled.
"""

from typing import Literal

import rl4jax as rl

rl.setup()

import jax  # noqa: E402

from rl4jax import ppo  # noqa: E402


def train(core: Literal["lstm"] | None, num_updates: int) -> float:
    """The share of symbols that the trained policy recalls."""
    env = rl.VecEnv(rl.envs.Memory(), num_envs=16)
    cfg = ppo.Config(lr=rl.Linear(5e-3, 0.0, num_updates), num_steps=64, gamma=0.5, num_minibatches=4)
    model = rl.nn.ActorCritic(env, key=jax.random.key(0), hidden=(64,), core=core)
    state = ppo.init(model, env, cfg, key=jax.random.key(1))

    for i in range(num_updates):
        state, rollout = ppo.collect(state, env, cfg)
        state, _ = ppo.update(state, rollout, cfg)
        if i % 20 == 0:
            print(f"{core or 'feed-forward'}  update {i:3d}  return {rollout.mean_episode_return:5.2f} of 17")

    result = rl.evaluate(state.policy, env, 100, key=jax.random.key(2))
    return float(result.mean) / 17  # 20 steps, of which the first 3 have nothing to recall


def main(short: bool = False) -> tuple[float, float]:
    num_updates = 2 if short else 100  # of 16 environments x 64 steps: 102,000 steps
    forgetful, remembering = train(None, num_updates), train("lstm", num_updates)
    print(f"Recalled: feed-forward {forgetful:.0%} (chance is 25%), LSTM {remembering:.0%}")
    return forgetful, remembering


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
