"""What a run has learned, ready to act: the one line for users of a trained agent."""

import dataclasses
import functools
import os
from typing import Any

import jax
from jaxtyping import PRNGKeyArray, PyTree

from rl4jax.core.spaces import StaticSpace, clip_action
from rl4jax.nn.model import Model, apply, initial_carry
from rl4jax.nn.packed import Packed, pack

from .run import load_run


@dataclasses.dataclass(frozen=True)
class Policy:
    """An `Act`: `action, carry = policy(obs, carry, mask)`. Greedy without a key; continuous actions are inside their box."""

    packed: Packed
    space: StaticSpace

    def __repr__(self) -> str:
        return f"Policy(for actions of {self.space})"

    @property
    def model(self) -> Any:
        """The network for raw observations, with the statistics of a normalised run in front."""
        return self.packed.model

    def __call__(self, obs: PyTree, carry: Any = None, mask: Any = None, *, key: PRNGKeyArray | None = None) -> tuple[PyTree, Any]:
        return _act(self.packed, self.space, obs, carry, mask, key)


@functools.partial(jax.jit, static_argnames="space")
def _act(packed: Packed, space: StaticSpace, obs: PyTree, carry: Any, mask: Any, key: PRNGKeyArray | None) -> tuple[PyTree, Any]:
    model = packed.model
    pi, _, carry = apply(model, obs, initial_carry(model) if carry is None else carry, mask)
    return clip_action(space.space, pi.mode() if key is None else pi.sample(key)), carry


def make_policy(model: Model, env) -> Policy:
    """A model of an environment, ready to act."""
    return Policy(pack(model), StaticSpace(env.single_action_space))


def load_policy(run: str | os.PathLike[str], which: str = "latest") -> Policy:
    """The policy of a run from its folder: `act = rl.load_policy("runs/...")`, then `action, carry = act(obs)`.

    `which` is "latest", the newest checkpoint, or "best", the best by evaluation.
    """
    loaded = load_run(run)
    try:
        _, state = loaded.need(which)
        return make_policy(state.policy, loaded.env)
    finally:
        close(loaded.env)


def close(env) -> None:
    """Let go of a host environment."""
    from rl4jax.core.gym_vec_env import GymVecEnv

    if isinstance(env, GymVecEnv):
        env.close()
