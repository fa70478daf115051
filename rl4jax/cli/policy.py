"""What a run has learned, ready to act: the one line for users of a trained agent."""

import dataclasses
import functools
import os
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from rl4jax.algo.acting import act
from rl4jax.collect.playing import AnyVecEnv
from rl4jax.core.errors import EnvError
from rl4jax.core.gym_spaces import action_writer, batch_of, obs_reader
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.number import is_concrete
from rl4jax.core.spaces import StaticSpace, clip_action
from rl4jax.nn.model import Model
from rl4jax.nn.packed import Packed, pack

from .build import load_run
from .environment import close


@dataclasses.dataclass(frozen=True)
class Policy:
    """An `Act`: `action, carry = policy(obs, carry, mask)`. Greedy without a key; continuous actions are inside their box."""

    packed: Packed
    space: StaticSpace
    masked: bool  # its environment gives masks

    def __repr__(self) -> str:
        return f"Policy(for actions of {self.space})"

    @property
    def model(self) -> Any:
        """The network for raw observations, with the statistics of a normalised run in front."""
        return self.packed.model

    def __call__(self, obs: PyTree, carry: Any = None, mask: Any = None, *, key: PRNGKeyArray | None = None) -> tuple[PyTree, Any]:
        if self.masked and mask is None:
            raise EnvError(
                f"{self}: mask = None, but its environment has masks and it would choose forbidden actions. Give act(obs, mask=...)."
            )
        obs = np.asarray(obs) if isinstance(obs, list) else obs
        action, carry = _act(self.packed, self.space, obs, carry, mask, key)
        return jax.tree.map(lambda x: np.asarray(x) if is_concrete(x) else x, action), carry  # Gymnasium takes no JAX arrays


@functools.partial(jax.jit, static_argnames="space")
def _act(packed: Packed, space: StaticSpace, obs: PyTree, carry: Any, mask: Any, key: PRNGKeyArray | None) -> tuple[PyTree, Any]:
    action, carry = act(packed.model, obs, carry, mask, key=key)
    return clip_action(space.space, action), carry


class GymPolicy:
    """The same for a Gymnasium environment: its own observations in, its own actions out, as NumPy.

    They may be counted from another number, or be shaped and typed otherwise, than `rl.GymVecEnv` showed them to the policy. A mask among
    the observations is found there.
    """

    def __init__(self, shown: Policy, env: GymVecEnv):
        self.shown = shown  # the Act for what `rl.GymVecEnv` shows
        self._obs_space, self._masks = env.envs.single_observation_space, env.masks
        self._read_obs = obs_reader(self._obs_space)
        self._write_action = action_writer(env.envs.single_action_space, env.single_action_space, num_envs=1)

    def __repr__(self) -> str:
        return repr(self.shown)

    @property
    def model(self) -> Any:
        """The network for observations as `rl.GymVecEnv` shows them."""
        return self.shown.model

    def __call__(self, obs: PyTree, carry: Any = None, mask: Any = None, *, key: PRNGKeyArray | None = None) -> tuple[PyTree, Any]:
        batch = self._read_obs(batch_of(self._obs_space, [obs]))
        if mask is None and self._masks.in_obs:
            mask = batch["action_mask"][0]
        mask = None if mask is None else np.asarray(mask).astype(bool)  # Gymnasium's are int8
        action, carry = self.shown(jax.tree.map(lambda x: x[0], self._masks.drop(batch)), carry, mask, key=key)
        own = self._write_action(jax.tree.map(lambda x: np.asarray(x)[None], action))
        return jax.tree.map(lambda x: x[0], own), carry


def make_policy(model: Model, env: AnyVecEnv) -> Policy:
    """A model of an environment, ready to act on what the vector environment shows."""
    return Policy(pack(model), StaticSpace(env.single_action_space), masked=has_masks(env))


def has_masks(env: Any) -> bool:
    """Whether an environment says which actions are allowed. One on the host must be reset to know."""

    def first_mask() -> Any:
        return env.action_mask(env.reset(jax.random.key(0))[0])

    return (first_mask() if isinstance(env, GymVecEnv) else jax.eval_shape(first_mask)) is not None


def load_policy(run: str | os.PathLike[str], which: str = "latest") -> Policy | GymPolicy:
    """The policy of a run from its folder: `act = rl.load_policy("runs/...")`, then `action, carry = act(obs)`.

    `which` is "latest", the newest checkpoint, or "best", the best by evaluation. Of a run on `gym:ID` it takes and gives what that
    environment itself does.
    """
    loaded = load_run(run)
    try:
        _, state = loaded.need(which)
        policy = make_policy(state.policy, loaded.env)
        return GymPolicy(policy, loaded.env) if isinstance(loaded.env, GymVecEnv) else policy
    finally:
        close(loaded.env)
