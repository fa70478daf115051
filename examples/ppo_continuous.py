"""Continuous actions: swing a pendulum up with a torque too weak to lift it at once.

python examples/ppo_continuous.py

Expect: the raw return rises from -853 to -153; eight seeds gave -133 to -181. 8 seconds on one core, once compiled.
"""

import rl4jax as rl

rl.setup()

import jax  # noqa: E402

from rl4jax import ppo  # noqa: E402


def main(short: bool = False) -> float:
    num_updates = 2 if short else 195  # of 4 environments x 256 steps: 200,000 steps
    env = rl.VecEnv(rl.envs.Pendulum(), num_envs=4)
    cfg = ppo.Config(
        lr=rl.Linear(1e-3, 0.0, num_updates),
        num_steps=256,
        update_epochs=10,
        num_minibatches=8,
        gamma=0.97,  # some 30 steps of 0.05 s: what counts is the next second and a half
        ent_coef=0.0,  # the standard deviation of the policy explores enough
        normalize_obs=True,  # running statistics, part of the state; returns are reported raw all the same
        normalize_reward=True,
    )
    # The same ActorCritic as for discrete actions: a Box action space gets a Normal, its standard deviation a learned parameter.
    model = rl.nn.ActorCritic(env, key=jax.random.key(0))
    state = ppo.init(model, env, cfg, key=jax.random.key(1))

    returns = []
    for i in range(num_updates):
        state, rollout = ppo.collect(state, env, cfg)
        state, _ = ppo.update(state, rollout, cfg)
        returns = (returns + rollout.episode_returns())[-20:]
        if i % 20 == 0:
            std = float(jax.numpy.exp(state.model.policy.log_std[0]))
            print(f"update {i:3d}  raw return {sum(returns) / len(returns):7.1f}  standard deviation of the torque {std:.2f}")

    # state.policy, not state.model: it carries the statistics that the network expects its observations to be normalised with.
    result = rl.evaluate(state.policy, env, 100, key=jax.random.key(2))
    print(f"Greedy raw return over 100 episodes: {result.mean:.1f} +- {result.std:.1f}")
    return float(result.mean)


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
