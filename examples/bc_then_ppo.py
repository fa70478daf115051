"""Begin with what an expert shows: clone 300 of its steps, then let PPO go on from the clone.

python examples/bc_then_ppo.py

Expect: TODO
"""

import sys

import rl4jax as rl

rl.setup()

import jax  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402

from rl4jax import bc, ppo  # noqa: E402

NUM_ENVS, NUM_STEPS = 4, 128  # of PPO
SOLVED = 475  # of 500, as in Gymnasium


def make_expert(num_updates: int) -> ppo.State:
    env = rl.VecEnv(rl.envs.CartPole(), NUM_ENVS)
    cfg = ppo.Config(lr=rl.Linear(2.5e-3, 0.0, num_updates), num_steps=NUM_STEPS)
    state = ppo.init(rl.nn.ActorCritic(env, key=jax.random.key(0)), env, cfg, key=jax.random.key(1))
    return ppo.train(state, env, cfg, num_updates)[0]


def demonstrate(expert: ppo.State, key: jax.Array) -> bc.Demonstrations:
    """The first 30 steps of ten episodes. Ten starts show more than one long episode, in which the pole soon stands still."""
    begin_key, play_key = jax.random.split(key)
    env = rl.VecEnv(rl.envs.CartPole(), 10)
    _, rollout = rl.collect.unroll(expert.policy, env, rl.collect.begin(expert.policy, env, key=begin_key), 30, key=play_key)
    return bc.from_rollouts(rollout)


def score(model: rl.nn.ActorCritic, key: jax.Array) -> float:
    """The mean return of 50 episodes with sampled actions, as PPO plays."""
    return float(rl.evaluate(model, rl.VecEnv(rl.envs.CartPole(), 50), 50, key=key, greedy=False).mean)


def of_critic(params: dict[str, jax.Array]) -> dict[str, bool]:
    """Which parameters of an `ActorCritic` are the critic's."""
    return {name: name.startswith(("trunks.1.", "value.")) for name in params}


CRITIC_ONLY = optax.partition({True: optax.adam(2.5e-3), False: optax.set_to_zero()}, of_critic)


def steps_until_solved(model: rl.nn.ActorCritic, key: jax.Array, *, critic_first: bool, most_steps: int) -> int:
    """How many steps PPO plays until the policy is solved, looking after every fourth update."""
    warm_key, init_key, *score_keys = jax.random.split(key, 2 + most_steps // (4 * NUM_ENVS * NUM_STEPS))
    env = rl.VecEnv(rl.envs.CartPole(), NUM_ENVS)
    cfg, steps = ppo.Config(lr=1e-3, num_steps=NUM_STEPS), 0
    if critic_first:  # a clone has no idea of values: learning from them would spoil it
        warm = ppo.init(model, env, cfg, key=warm_key, opt=CRITIC_ONLY)
        warm, _ = ppo.train(warm, env, cfg, 8, CRITIC_ONLY)
        model, steps = warm.model, 8 * NUM_ENVS * NUM_STEPS
    state = ppo.init(model, env, cfg, key=init_key)
    for score_key in score_keys:
        state, _ = ppo.train(state, env, cfg, 4)
        steps += 4 * NUM_ENVS * NUM_STEPS
        if score(state.model, score_key) >= SOLVED:
            break
    return steps


def main(short: bool = False) -> dict[str, list[float]]:
    num_seeds, num_epochs, most_steps = (2, 2, 4_000) if short else (8, 60, 200_000)
    expert = make_expert(4 if short else 390)
    print(f"The expert returns {score(expert.policy, jax.random.key(2)):.0f}.\n\nseed  clone  steps from the clone  steps from scratch")
    results = {"clone": [], "from the clone": [], "from scratch": []}
    cfg = bc.Config()
    for seed in range(num_seeds):
        keys = jax.random.split(jax.random.key(10 + seed), 7)
        data = demonstrate(expert, keys[0])
        env = rl.VecEnv(rl.envs.CartPole(), NUM_ENVS)
        clone = bc.init(rl.nn.ActorCritic(env, key=keys[1]), data, cfg, key=keys[2])
        clone, _ = bc.train(clone, data, cfg, num_epochs)
        results["clone"].append(score(clone.policy, keys[3]))
        results["from the clone"].append(steps_until_solved(clone.model, keys[4], critic_first=True, most_steps=most_steps))
        fresh = rl.nn.ActorCritic(env, key=keys[5])
        results["from scratch"].append(steps_until_solved(fresh, keys[6], critic_first=False, most_steps=most_steps))
        print(f"{seed:4d}  {results['clone'][-1]:5.0f}  {results['from the clone'][-1]:20,}  {results['from scratch'][-1]:18,}", flush=True)
    print("mean" + "".join(f"  {np.mean(of_seeds):,.0f}" for of_seeds in results.values()))
    return results


if __name__ == "__main__":
    main(short="--short" in sys.argv)
