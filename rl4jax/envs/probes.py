"""Five probes: environments so small that their values are known, each of which isolates one part of an algorithm.

After Andy Jones, "Debugging RL, without the agonizing pain" (2021). An algorithm that fails a probe is broken in the part the probe names:

1. ProbeConstant: the value loss and the optimizer.
2. ProbeObservation: the path of the gradient through the network.
3. ProbeDiscount: discounting and bootstrapping.
4. ProbeAction: the advantage and the policy loss.
5. ProbeContext: policy and value together, batches in the right order.

Each comes with every kind of action: `actions="discrete"`, `"multi_discrete"` (two heads, both must be right), `"continuous"` (its
sign counts) or `"composite"` (a choice and a continuous part, both must be right).
"""

import abc
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray, PyTree, UInt8

from rl4jax.core.env import AbstractEnv, Step
from rl4jax.core.errors import require
from rl4jax.core.number import Number

from . import draw

KINDS = ("discrete", "multi_discrete", "continuous", "composite")


class ProbeState(eqx.Module):
    obs: Float[Array, "1"]
    t: Int32[Array, ""]


class AbstractProbe(AbstractEnv):
    """What the probes share: one number in [-1, 1] to see, actions of any kind, and a value known in advance."""

    actions: Literal["discrete", "multi_discrete", "continuous", "composite"] = eqx.field(default="discrete", static=True)
    num_choices: ClassVar[int]

    def __check_init__(self):
        require(self.actions in KINDS, f"{type(self).__name__}.actions", self.actions, f"one of {', '.join(KINDS)}")

    @property
    def action_space(self) -> spaces.Space:
        choice, number = spaces.Discrete(self.num_choices), spaces.Box(-1, 1, (1,), np.float32)
        return {
            "discrete": choice,
            "multi_discrete": spaces.MultiDiscrete([self.num_choices] * 2),
            "continuous": number,
            "composite": spaces.Dict(choice=choice, number=number),
        }[self.actions]

    @property
    def observation_space(self) -> spaces.Box:
        return spaces.Box(-1, 1, (1,), np.float32)

    @abc.abstractmethod
    def optimal_value(self, obs: Float[Array, "*B 1"], gamma: Number) -> Float[Array, "*B"]:
        """The best discounted return from where `obs` is seen."""

    def render(self, state: ProbeState) -> UInt8[np.ndarray, "H W 3"]:
        canvas = draw.Canvas(300, 140, origin=(150, 80), scale=110)
        canvas.line([(-1, 0), (1, 0)], draw.LINE, 0.04)
        for value in (-1, 0, 1):
            canvas.text((value, -0.32), f"{value:+d}" if value else "0")
        canvas.circle((float(state.obs[0]), 0), 0.12, draw.BLUE)
        canvas.caption(f"{type(self).__name__}, step {int(state.t)}")
        return canvas.pixels()


class ProbeConstant(AbstractProbe):
    """One action, one observation, one step, reward 1."""

    num_choices: ClassVar[int] = 1

    def reset(self, key: PRNGKeyArray) -> tuple[ProbeState, Float[Array, "1"]]:
        return begin(jnp.zeros(1, jnp.float32))

    def step(self, state: ProbeState, action: PyTree, key: PRNGKeyArray) -> tuple[ProbeState, Step]:
        return advance(state, reward=jnp.float32(1))

    def optimal_value(self, obs: Float[Array, "*B 1"], gamma: Number) -> Float[Array, "*B"]:
        return jnp.ones_like(obs[..., 0])


class ProbeObservation(AbstractProbe):
    """One action, a random observation of -1 or +1, one step, the reward is what was seen."""

    num_choices: ClassVar[int] = 1

    def reset(self, key: PRNGKeyArray) -> tuple[ProbeState, Float[Array, "1"]]:
        return begin(random_sign(key))

    def step(self, state: ProbeState, action: PyTree, key: PRNGKeyArray) -> tuple[ProbeState, Step]:
        return advance(state, reward=state.obs[0])

    def optimal_value(self, obs: Float[Array, "*B 1"], gamma: Number) -> Float[Array, "*B"]:
        return obs[..., 0]


class ProbeDiscount(AbstractProbe):
    """One action, two steps that show 0 and then 1, reward 1 at the end."""

    num_choices: ClassVar[int] = 1

    def reset(self, key: PRNGKeyArray) -> tuple[ProbeState, Float[Array, "1"]]:
        return begin(jnp.zeros(1, jnp.float32))

    def step(self, state: ProbeState, action: PyTree, key: PRNGKeyArray) -> tuple[ProbeState, Step]:
        terminated = state.t >= 1
        return advance(ProbeState(obs=jnp.ones_like(state.obs), t=state.t), terminated.astype(jnp.float32), terminated)

    def optimal_value(self, obs: Float[Array, "*B 1"], gamma: Number) -> Float[Array, "*B"]:
        return jnp.where(obs[..., 0] < 0.5, gamma, jnp.ones_like(obs[..., 0]))


class ProbeAction(AbstractProbe):
    """Two actions, one observation, one step, reward +1 for action 1 and -1 for action 0."""

    num_choices: ClassVar[int] = 2

    def reset(self, key: PRNGKeyArray) -> tuple[ProbeState, Float[Array, "1"]]:
        return begin(jnp.zeros(1, jnp.float32))

    def step(self, state: ProbeState, action: PyTree, key: PRNGKeyArray) -> tuple[ProbeState, Step]:
        return advance(state, reward=sign_of(action))

    def optimal_value(self, obs: Float[Array, "*B 1"], gamma: Number) -> Float[Array, "*B"]:
        return jnp.ones_like(obs[..., 0])


class ProbeContext(AbstractProbe):
    """Two actions, a random observation of -1 or +1, one step, reward +1 if the action (0 for -1, 1 for +1) matches it, otherwise -1."""

    num_choices: ClassVar[int] = 2

    def reset(self, key: PRNGKeyArray) -> tuple[ProbeState, Float[Array, "1"]]:
        return begin(random_sign(key))

    def step(self, state: ProbeState, action: PyTree, key: PRNGKeyArray) -> tuple[ProbeState, Step]:
        return advance(state, reward=sign_of(mirrored(action, state.obs[0])))

    def optimal_value(self, obs: Float[Array, "*B 1"], gamma: Number) -> Float[Array, "*B"]:
        return jnp.ones_like(obs[..., 0])


def begin(obs: Float[Array, "1"]) -> tuple[ProbeState, Float[Array, "1"]]:
    return ProbeState(obs=obs, t=jnp.int32(0)), obs


def advance(state: ProbeState, reward: Float[Array, ""], terminated: Bool[Array, ""] | None = None) -> tuple[ProbeState, Step]:
    """Count the step and show the state's observation; an episode of one step unless `terminated` is given."""
    state = ProbeState(obs=state.obs, t=state.t + 1)
    terminated = jnp.array(True) if terminated is None else terminated
    return state, Step(obs=state.obs, reward=reward, terminated=terminated, truncated=jnp.array(False))


def random_sign(key: PRNGKeyArray) -> Float[Array, "1"]:
    return jax.random.rademacher(key, (1,), jnp.float32)


def sign_of(action: PyTree) -> Float[Array, ""]:
    """+1 if every part of the action is the right one (1, or above 0), otherwise -1."""
    right = [jnp.all(part > 0) for part in jax.tree.leaves(action)]
    return jnp.where(jnp.stack(right).all(), jnp.float32(1), jnp.float32(-1))


def mirrored(action: PyTree, sign: Float[Array, ""]) -> PyTree:
    """The action that means the same where the sign is -1: the other choice, the opposite number."""
    return jax.tree.map(lambda x: jnp.where(sign > 0, x, -x if jnp.issubdtype(jnp.result_type(x), jnp.floating) else 1 - x), action)
