"""An actor-critic whose actors lag behind: IMPALA learns to balance a pole from rollouts that are eight updates old.

python examples/impala_cartpole.py

Expect: 475 or more of 500, on-policy and with actors eight updates behind. A minute on one core.
"""

import collections

import rl4jax as rl

rl.setup()

import jax  # noqa: E402

from rl4jax import impala  # noqa: E402


def train(lag: int, num_updates: int, seed: int = 0) -> float:
    """The greedy return after training with actors that are `lag` updates behind."""
    model_key, key, eval_key = jax.random.split(jax.random.key(seed), 3)
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=8)
    cfg = impala.Config(lr=rl.Linear(1e-3, 0.0, num_updates), num_steps=80, max_grad_norm=1.0)
    state = impala.init(rl.nn.ActorCritic(env, key=model_key), env, cfg, key=key)

    queue = collections.deque()  # between the actors, who play with the weights of today, and the learner
    for i in range(num_updates + lag):
        state, rollout = impala.collect(state, env, cfg)
        queue.append(rollout)
        if len(queue) <= lag:
            continue
        state, metrics = impala.update(state, queue.popleft(), cfg)  # V-trace corrects for the updates in between
        if (i - lag) % 150 == 0:
            moved = f"policy moved by {metrics['train/approx_kl']:.1e} since"
            print(f"update {i - lag:3d}  return {rollout.mean_episode_return:5.1f}  {moved}", flush=True)
    return float(rl.evaluate(state.policy, env, 100, key=eval_key).mean)


def main(short: bool = False) -> dict[str, float]:
    num_updates = 4 if short else 1550  # of 8 environments x 80 steps: 992,000 steps
    returns = {}
    for lag in (0, 8):
        returns[f"lag {lag}"] = train(lag, num_updates)
        print(f"Actors {lag} updates behind: greedy return {returns[f'lag {lag}']:.1f} (500 is the most)")
    return returns


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
