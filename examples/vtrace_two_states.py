"""Judge one policy by what another one plays: V-trace finds the values of the first, a learner that corrects nothing those of the second.

python examples/vtrace_two_states.py

Expect: both within 0.1 of what dynamic programming says, and a picture of how they get there. Half a minute on one core.
"""

import pathlib

import rl4jax as rl

rl.setup()

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from gymnasium import spaces  # noqa: E402

from rl4jax import impala  # noqa: E402

GAMMA = 0.9
REWARD = np.array([[0.0, 1.0], [2.0, -1.0]])  # of action a in state s; action a leads to state a
PI = np.array([[0.1, 0.9], [0.8, 0.2]])  # the policy to judge, by state: it knows where the rewards are
MU = np.array([[0.5, 0.5], [0.5, 0.5]])  # the one that plays


class TwoStates(rl.AbstractEnv):
    """Walk between two states for ever, watched for 100 steps at a time."""

    @property
    def observation_space(self) -> spaces.Discrete:
        return spaces.Discrete(2)

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(2)

    def reset(self, key: jax.Array) -> tuple[tuple, jax.Array]:
        start = jax.random.randint(key, (), 0, 2)
        return (start, jnp.int32(0)), start

    def step(self, state: tuple, action: jax.Array, key: jax.Array) -> tuple[tuple, rl.Step]:
        reward = jnp.asarray(REWARD, jnp.float32)[state[0], action]
        t = state[1] + 1
        return (action, t), rl.Step(action, reward, terminated=jnp.array(False), truncated=t >= 100)


class Judge(eqx.Module):
    """A policy that is given, and a value for each state that is learned."""

    value: jax.Array
    probs: tuple = eqx.field(static=True)

    def __call__(self, obs: jax.Array) -> tuple[rl.nn.Categorical, jax.Array]:
        return rl.nn.Categorical(jnp.log(jnp.array(self.probs))[obs]), self.value[obs]


def true_values(policy: np.ndarray) -> np.ndarray:
    """Dynamic programming: `V = R + gamma * P V`, and action a leads to state a."""
    return np.linalg.solve(np.eye(2) - GAMMA * policy, (policy * REWARD).sum(1))


def learn(corrected: bool, num_updates: int, clip_rho: float = 10.0) -> np.ndarray:
    """The two values after each update. `clip_rho` lets all ratios pass: at the usual 1, the policy judged lies between the two."""
    env = rl.VecEnv(TwoStates(), num_envs=64)
    cfg = impala.Config(num_steps=20, gamma=GAMMA, lr=rl.Linear(0.2, 0.001, num_updates), clip_rho=clip_rho, vf_coef=1.0, ent_coef=0.0)
    judge, player = (Judge(jnp.zeros(2), tuple(map(tuple, probs.tolist()))) for probs in (PI, MU))
    state = impala.init(judge, env, cfg, key=jax.random.key(0))

    def turn(state, key):
        playing, rollout = rl.collect.unroll(player, env, state.playing, cfg.num_steps, key=key, judged=False)
        if not corrected:  # what was played passes for what the policy would have done
            rollout = rollout._replace(log_prob=jnp.log(jnp.asarray(PI, jnp.float32))[rollout.obs, rollout.action])
        state, _ = impala.update(state._replace(playing=playing), rollout, cfg)
        return state, state.model.value

    _, curve = jax.lax.scan(turn, state, jax.random.split(jax.random.key(1), num_updates))
    return np.asarray(curve)


def main(short: bool = False) -> dict[str, np.ndarray]:
    """The errors that are left, by learner and state."""
    num_updates = 10 if short else 500
    curves = {"V-trace": learn(True, num_updates), "uncorrected": learn(False, num_updates)}
    truth = {"V-trace": true_values(PI), "uncorrected": true_values(MU)}
    for name, curve in curves.items():
        print(f"{name:12s} learned {np.round(curve[-1], 2)}, dynamic programming says {np.round(truth[name], 2)}")
    if not short:
        draw(curves, truth, pathlib.Path("runs") / "vtrace_two_states.png")
    return {name: curve[-1] - truth[name] for name, curve in curves.items()}


def draw(curves: dict[str, np.ndarray], truth: dict[str, np.ndarray], path: pathlib.Path) -> None:
    """The values of both learners over updates, and the truth of each policy as dashed lines. Needs `pip install 'rl4jax[plot]'`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.5), sharey=True)
    for state, ax in enumerate(axes):
        for (name, curve), colour, policy in zip(curves.items(), ("tab:blue", "tab:orange"), ("pi", "mu"), strict=True):
            ax.plot(curve[:, state], color=colour, label=name)
            ax.axhline(truth[name][state], color=colour, linestyle="--", linewidth=1, label=f"V of {policy}, exactly")
        ax.set(title=f"state {state}", xlabel="updates")
    axes[0].set_ylabel("value")
    axes[1].legend()
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=100)
    print(f"written to {path}")


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
