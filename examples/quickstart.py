"""The smallest training run: PPO learns to balance a pole. You own the loop; the library supplies `collect` and `update`.

python examples/quickstart.py

Expect: the return climbs from 20 to 500, the most there is, and the greedy policy ends at 500. 6 seconds on one core, once compiled.
"""

import rl4jax as rl

rl.setup()

import jax  # noqa: E402

from rl4jax import ppo  # noqa: E402


def main(short: bool = False) -> float:
    num_updates = 4 if short else 390  # of 4 environments x 128 steps: 200,000 steps
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=4)
    cfg = ppo.Config(lr=rl.Linear(2.5e-3, 0.0, num_updates))  # otherwise CleanRL's defaults
    model = rl.nn.ActorCritic(env, key=jax.random.key(0))  # or any eqx.Module: obs -> (distribution, value)
    state = ppo.init(model, env, cfg, key=jax.random.key(1))

    returns = []
    for i in range(num_updates):
        state, rollout = ppo.collect(state, env, cfg)
        state, metrics = ppo.update(state, rollout, cfg)
        returns = (returns + rollout.episode_returns())[-20:]
        if i % 30 == 0:
            print(f"update {i:3d}  return {sum(returns) / len(returns):5.1f}  entropy {metrics['train/entropy']:.2f}")

    result = rl.evaluate(state.policy, env, 100, key=jax.random.key(2))
    print(f"Greedy return over 100 episodes: {result.mean:.1f} (500 is the most)")
    return float(result.mean)


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
