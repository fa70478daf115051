"""A world model remembers: name the symbol that was shown three steps ago, learned from a tenth of the steps that PPO needs.

python examples/dreamer_memory.py

Expect: 95 % or more recalled after 15,000 steps. Some minutes on one core.
"""

import rl4jax as rl

rl.setup()

import jax  # noqa: E402

from rl4jax import dreamer  # noqa: E402


def main(short: bool = False, seed: int = 0) -> float:
    num_turns = 2 if short else 15  # of about a thousand steps
    env = rl.VecEnv(rl.envs.Memory(), num_envs=4)
    cfg = dreamer.Config(
        lr=rl.Linear(3e-3, 3e-4, 3_750),
        batch_size=16,
        length=16,  # as far back as a gradient reaches: three steps are enough here, and the stored latents remember more
        train_ratio=1 if short else 64,  # each step is learned from so many times: a gradient step on 256 steps for every fourth one
        capacity=50_000,
        learning_starts=500,
        imagine_from=8,
        representation_coef=10,
        dyn_coef=0.3,
        rep_coef=0.03,
        free_nats=0.1,  # a symbol is 1.4 nats of news: a whole free nat, as for large worlds, would leave most of it to chance
    )
    model_key, key, eval_key = jax.random.split(jax.random.key(seed), 3)
    agent = dreamer.Agent(env, "tiny", key=model_key)
    state = dreamer.init(agent, env, cfg, key=key)

    for i in range(num_turns):
        state, metrics = dreamer.train(state, env, cfg, num_updates=16)  # 16 rollouts of 4 x 16 steps, as one program
        kl, painted = (float(metrics[f"train/{name}"][-1]) for name in ("kl", "representation_loss"))
        returned = float(metrics["rollout/avg_return"][-1])
        print(
            f"{1024 * (i + 1):6,} env steps  return {returned:5.2f} of 17  not foreseen {kl:.2f} nats  not painted {painted:.3f}",
            flush=True,
        )

    result = rl.evaluate(state.policy, rl.VecEnv(rl.envs.Memory(), num_envs=100), 100, key=eval_key)
    recalled = float(result.mean) / 17  # 20 steps, of which the first 3 have nothing to recall
    print(f"Recalled: {recalled:.0%} (chance is 25%)")
    return recalled


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
