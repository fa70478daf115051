"""Begin with what an expert shows: clone 1,000 of its steps, then let PPO go on from the clone.

python examples/bc_then_ppo.py

Expect: over 8 seeds the clones return 500, the most there is, and PPO holds that from the first update on. From scratch PPO returns 190
after 4,096 steps and 330 after 32,768. 40 seconds on one core, once compiled.
"""

import rl4jax as rl

rl.setup()

import jax  # noqa: E402
import numpy as np  # noqa: E402

from rl4jax import bc, ppo  # noqa: E402

LOOKS = [0, 4, 8, 16, 32, 64, 128]  # after how many updates the policy is evaluated
NUM_ENVS, NUM_STEPS = 4, 128  # of PPO


def make_expert(num_updates: int) -> ppo.State:
    env = rl.VecEnv(rl.envs.CartPole(), NUM_ENVS)
    cfg = ppo.Config(lr=rl.Linear(2.5e-3, 0.0, num_updates), num_steps=NUM_STEPS)
    state = ppo.init(rl.nn.ActorCritic(env, key=jax.random.key(0)), env, cfg, key=jax.random.key(1))
    return ppo.train(state, env, cfg, num_updates)[0]


def demonstrate(expert: ppo.State, key: jax.Array) -> bc.Demonstrations:
    """The first 100 steps of ten episodes: ten starts show more than two long episodes, in which the pole soon stands still."""
    begin_key, play_key = jax.random.split(key)
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=10)
    playing = rl.collect.begin(expert.policy, env, key=begin_key)
    _, rollout = rl.collect.unroll(expert.policy, env, playing, num_steps=100, key=play_key)
    return bc.from_rollouts(rollout)


def clone_of(data: bc.Demonstrations, num_epochs: int, key: jax.Array) -> bc.State:
    model_key, init_key = jax.random.split(key)
    env = rl.VecEnv(rl.envs.CartPole(), NUM_ENVS)
    cfg = bc.Config()  # a tenth of the steps is held out; metrics["eval/accuracy"] is how often the clone does the same there
    state = bc.init(rl.nn.ActorCritic(env, key=model_key), data, cfg, key=init_key)
    return bc.train(state, data, cfg, num_epochs)[0]


def curve(model: rl.nn.ActorCritic, lr: float, looks: list[int], key: jax.Array) -> list[float]:
    """PPO from this model on: the mean return of 50 episodes at each look, played as PPO plays, with sampled actions."""
    init_key, *look_keys = jax.random.split(key, 1 + len(looks))
    env, cfg = rl.VecEnv(rl.envs.CartPole(), NUM_ENVS), ppo.Config(lr=lr, num_steps=NUM_STEPS)
    state, returns = ppo.init(model, env, cfg, key=init_key), []
    for look, look_key in zip(looks, look_keys, strict=True):
        if look > state.num_updates:
            state, _ = ppo.train(state, env, cfg, look - int(state.num_updates))
        seen = rl.evaluate(state.policy, rl.VecEnv(rl.envs.CartPole(), 50), 50, key=look_key, greedy=False)
        returns.append(float(seen.mean))
    return returns


def main(short: bool = False) -> dict[str, list[list[float]]]:
    num_seeds, num_epochs, looks = (2, 2, LOOKS[:2]) if short else (8, 30, LOOKS)
    expert = make_expert(4 if short else 390)
    curves = {"the clone": [], "scratch": []}
    for seed in range(num_seeds):
        data_key, clone_key, tune_key, fresh_key, learn_key = jax.random.split(jax.random.key(10 + seed), 5)
        clone = clone_of(demonstrate(expert, data_key), num_epochs, clone_key)
        curves["the clone"].append(curve(clone.model, 2.5e-4, looks, tune_key))  # gently: it is good already
        fresh = rl.nn.ActorCritic(rl.VecEnv(rl.envs.CartPole(), NUM_ENVS), key=fresh_key)
        curves["scratch"].append(curve(fresh, 2.5e-3, looks, learn_key))

    print("Mean return (and that of the worst seed) of PPO from the clone and from scratch")
    for i, look in enumerate(looks):
        cells = [f"{start} {np.mean(seen, 0)[i]:3.0f} ({np.min(seen, 0)[i]:3.0f})" for start, seen in curves.items()]
        print(f"update {look:3d}  steps {look * NUM_ENVS * NUM_STEPS:6,}  " + "   ".join(cells))
    return curves


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
