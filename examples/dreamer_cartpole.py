"""Balance a pole by dreaming of it: DreamerV3 learns CartPole in 50,000 steps, from its own imagination.

python examples/dreamer_cartpole.py

Expect: 400 or more of 500. Some ten minutes on one core.
"""

import rl4jax as rl

rl.setup()

import jax  # noqa: E402

from rl4jax import dreamer  # noqa: E402


def main(short: bool = False, seed: int = 0) -> float:
    num_updates = 10 if short else 780  # each after 64 steps
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=4)
    cfg = dreamer.Config(
        lr=rl.Linear(3e-3, 3e-4, 12_500),
        batch_size=16,
        length=16,
        train_ratio=1 if short else 64,  # a gradient step on 256 steps for every fourth one that is played
        capacity=50_000,
        learning_starts=500,
        imagine_from=8,
        representation_coef=10,
        dyn_coef=0.3,
        rep_coef=0.03,
        free_nats=0.1,
    )
    model_key, key, eval_key = jax.random.split(jax.random.key(seed), 3)
    state = dreamer.init(dreamer.Agent(env, "tiny", key=model_key), env, cfg, key=key)

    for i in range(num_updates):  # or dreamer.train(state, env, cfg, num_updates): the same as one program
        state, rollout = dreamer.collect(state, env, cfg)  # 4 x 16 steps, with the latents that the agent had
        state, metrics = dreamer.update(state, rollout, cfg)  # 16 gradient steps: world model, critic and policy
        if i % 16 == 0:
            returned, dreamt = rollout.mean_episode_return, metrics["train/imagined_return"]  # NaN if there was none
            print(f"{64 * (i + 1):6,} env steps  return {returned:5.1f}  imagined {dreamt:6.2f}", flush=True)

    result = rl.evaluate(state.policy, rl.VecEnv(rl.envs.CartPole(), num_envs=100), 100, key=eval_key)
    print(f"Greedy return over 100 episodes: {result.mean:.1f} (500 is the most)")
    return float(result.mean)


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
