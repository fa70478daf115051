"""Two specialists, one student: each teacher knows one of two worlds, and the student learns both from them, in a smaller network.

python examples/distill_teachers.py

Expect: over 8 seeds each teacher returns 500 in its own world and 9 in the other; the student, a quarter of their size, 500 in both and
chooses as they do at 99 % of the observations that were held out. 90 seconds on one core, once compiled.
"""

import rl4jax as rl

rl.setup()

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from gymnasium import spaces  # noqa: E402

from rl4jax import bc, distill, ppo  # noqa: E402


class Wired(rl.AbstractWrapper):
    """CartPole whose cable may be crossed, so that left is right. A lamp among the observations tells."""

    crossed: bool = eqx.field(static=True)

    @property
    def observation_space(self) -> spaces.Box:
        inner = self.env.observation_space
        assert isinstance(inner, spaces.Box)
        low, high = np.append(inner.low, -1), np.append(inner.high, 1)
        return spaces.Box(low.astype(np.float32), high.astype(np.float32))

    def reset(self, key: jax.Array) -> tuple:
        state, obs = self.env.reset(key)
        return state, self.with_lamp(obs)

    def step(self, state: eqx.Module, action: jax.Array, key: jax.Array) -> tuple:
        state, step = self.env.step(state, 1 - action if self.crossed else action, key)
        return state, step._replace(obs=self.with_lamp(step.obs))

    def with_lamp(self, obs: jax.Array) -> jax.Array:
        return jnp.append(obs, 1.0 if self.crossed else -1.0)


WORLDS = [Wired(rl.envs.CartPole(), crossed=False), Wired(rl.envs.CartPole(), crossed=True)]


def make_teacher(world: Wired, num_updates: int, key: jax.Array) -> ppo.State:
    """PPO in one world."""
    model_key, init_key = jax.random.split(key)
    env, cfg = rl.VecEnv(world, num_envs=4), ppo.Config(lr=rl.Linear(2.5e-3, 0.0, num_updates))
    state = ppo.init(rl.nn.ActorCritic(env, key=model_key), env, cfg, key=init_key)
    return ppo.train(state, env, cfg, num_updates)[0]


def ask(teacher: ppo.State, world: Wired, key: jax.Array) -> distill.Targets:
    """What the teacher would do, at what it sees in its own world: the first 100 steps of 20 episodes."""
    begin_key, play_key = jax.random.split(key)
    env = rl.VecEnv(world, num_envs=20)
    _, rollout = rl.collect.unroll(teacher.policy, env, rl.collect.begin(teacher.policy, env, key=begin_key), 100, key=play_key)
    return distill.label(teacher.policy, bc.from_rollouts(rollout).obs)


def scores(model: rl.nn.ActorCritic, key: jax.Array) -> list[float]:
    """Greedy returns in both worlds, of 500."""
    return [float(rl.evaluate(model, rl.VecEnv(world, 50), 50, key=k).mean) for world, k in zip(WORLDS, jax.random.split(key), strict=True)]


def main(short: bool = False) -> dict[str, list[list[float]]]:
    num_seeds, num_updates, num_epochs = (1, 2, 2) if short else (8, 390, 60)
    results = {"teacher 0": [], "teacher 1": [], "student": []}
    cfg = distill.Config(temperature=2.0, lr=3e-3)
    print("Returns in world 0 and in world 1")
    for seed in range(num_seeds):
        teach_key, ask_key, model_key, init_key, score_key = jax.random.split(jax.random.key(seed), 5)
        teachers = [make_teacher(world, num_updates, key) for world, key in zip(WORLDS, jax.random.split(teach_key), strict=True)]
        answers = [ask(*asked) for asked in zip(teachers, WORLDS, jax.random.split(ask_key), strict=True)]
        targets = distill.merge(answers)  # 2,000 observations of each world
        small = rl.nn.ActorCritic(rl.VecEnv(WORLDS[0], num_envs=1), key=model_key, hidden=(32, 32))
        student = distill.init(small, targets, cfg, key=init_key)
        student, metrics = distill.train(student, targets, cfg, num_epochs)
        score_keys = jax.random.split(score_key, 3)
        for name, policy, key in zip(results, [*(t.policy for t in teachers), student.policy], score_keys, strict=True):
            results[name].append(scores(policy, key))
        row = "   ".join(f"{name} {a:3.0f} {b:3.0f}" for name, (a, b) in ((name, seen[-1]) for name, seen in results.items()))
        print(f"seed {seed}  {row}   agreement {metrics['eval/agreement'][-1]:.0%}", flush=True)
    return results


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
