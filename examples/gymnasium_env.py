"""The same loop on any Gymnasium environment, which runs on the host: only the line that makes the environment differs.

python examples/gymnasium_env.py

Expect: a greedy return of 500, the most there is. 30 seconds on one core: a step on the host costs more.
"""

import rl4jax as rl

rl.setup()

import jax  # noqa: E402

from rl4jax import ppo  # noqa: E402


def main(short: bool = False) -> float:
    num_updates = 2 if short else 390  # of 4 environments x 128 steps: 200,000 steps
    # A Gymnasium id, a function that makes an environment, a VectorEnv or an EnvPool; asynchronous=True gives each its own process.
    env = rl.GymVecEnv("CartPole-v1", num_envs=4)
    cfg = ppo.Config(lr=rl.Linear(2.5e-3, 0.0, num_updates))
    model = rl.nn.ActorCritic(env, key=jax.random.key(0))
    state = ppo.init(model, env, cfg, key=jax.random.key(1))

    returns = []
    for i in range(num_updates):
        state, rollout = ppo.collect(state, env, cfg)  # Python steps the environments; the network is one compiled call per step
        state, metrics = ppo.update(state, rollout, cfg)
        returns = (returns + rollout.episode_returns())[-20:]
        if i % 30 == 0:
            print(f"update {i:3d}  return {sum(returns) / len(returns):5.1f}  entropy {metrics['train/entropy']:.2f}")
    env.close()

    # A second one for the evaluation, which resets it: episodes of the first would be cut off, and its states go stale.
    num_episodes = 10 if short else 100
    with rl.GymVecEnv("CartPole-v1", num_envs=10) as eval_env:
        result = rl.evaluate(state.policy, eval_env, num_episodes, key=jax.random.key(2))
    print(f"Greedy return over {num_episodes} episodes: {result.mean:.1f} (500 is the most)")
    return float(result.mean)


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
