"""Learn what actions are worth, from memory: DQN balances a pole in 200,000 steps of one environment.

python examples/dqn_cartpole.py

Expect: 450 or more of 500. A minute on one core, once compiled.
"""

import rl4jax as rl

rl.setup()

import jax  # noqa: E402
import numpy as np  # noqa: E402

from rl4jax import dqn  # noqa: E402

SHOWN = ("rollout/avg_return", "train/mean_q")  # NaN where no episode ended, and before learning starts


def main(short: bool = False, seed: int = 0) -> float:
    num_turns = 4 if short else 200  # of a thousand updates, each after one env step
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=1)
    cfg = dqn.Config(
        lr=rl.Linear(1e-3, 0.0, 200_000),
        batch_size=64,
        capacity=100_000,
        tau=0.005,
        n_step=3,  # rewards travel three steps at a time,
        gradient_steps=2,  # and twice after each env step
        double=True,  # values that are too high make the policy fall apart again
        epsilon=rl.Linear(1.0, 0.05, 5_000),
    )
    model_key, key, eval_key = jax.random.split(jax.random.key(seed), 3)
    model = rl.nn.QNetwork(env, key=model_key, norm="layer")  # or any eqx.Module: obs -> a value for each action
    state = dqn.init(model, env, cfg, key=key)

    for _ in range(num_turns):
        state, metrics = dqn.train(state, env, cfg, num_updates=1_000)  # collect and update, a thousand times, as one program
        returns, q = (np.nanmean(metrics[name]) if np.isfinite(metrics[name]).any() else np.nan for name in SHOWN)
        steps = f"{int(state.num_steps):7,} env steps"
        print(f"{steps}  return {returns:5.1f}  value {q:5.1f}  random {metrics['train/epsilon'][-1]:4.0%}", flush=True)

    result = rl.evaluate(state.policy, rl.VecEnv(rl.envs.CartPole(), num_envs=10), 100, key=eval_key)
    print(f"Greedy return over 100 episodes: {result.mean:.1f} (500 is the most)")
    return float(result.mean)


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
