"""Where an agent and its environments stand between two rollouts."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray, PyTree

from rl4jax.core.contract import describe
from rl4jax.core.errors import EnvError
from rl4jax.core.gym_vec_env import GymState, GymVecEnv
from rl4jax.core.number import is_concrete
from rl4jax.core.on_device import once
from rl4jax.core.spaces import struct_of
from rl4jax.core.vec_env import VecEnv
from rl4jax.nn.model import Model, initial_carry

AnyVecEnv = VecEnv | GymVecEnv


FAULTS = ("rewards that are not finite", "observations that are not finite", "action masks that allow nothing")


class Playing(NamedTuple):
    """All that goes on from one rollout to the next: pass it on, and episodes may be longer than rollouts."""

    env_state: Any
    obs: PyTree
    is_first: Bool[Array, " B"]
    carry: PyTree
    episode_return: Float[Array, " B"]  # so far
    episode_length: Int32[Array, " B"]
    faults: Int32[Array, "3"]  # of in-graph environments, see FAULTS: a compiled program cannot raise, it counts


def begin(model: Model, env: AnyVecEnv, *, key: PRNGKeyArray) -> Playing:
    """Reset all environments."""
    num_envs = env.num_envs
    env_state, obs = env.reset(key)
    carry = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_envs, *x.shape)), initial_carry(model))
    faults = jnp.zeros(len(FAULTS), jnp.int32)
    return Playing(env_state, obs, jnp.ones(num_envs, bool), carry, jnp.zeros(num_envs), jnp.zeros(num_envs, jnp.int32), faults)


def check_goes_on(playing: Playing, env: AnyVecEnv) -> None:
    """Raise unless these are the environments that were played in, as far as their number and kind tell."""
    host, was_host = isinstance(env, GymVecEnv), isinstance(playing.env_state, GymState)
    num_envs = playing.is_first.shape[0]
    if host != was_host or env.num_envs != num_envs:
        kinds = {True: "on the host", False: "in-graph"}
        raise EnvError(
            f"collect: the state plays in {num_envs} environments {kinds[was_host]}, but env has {env.num_envs} {kinds[host]}. Use the "
            f"same, or begin anew: {ANEW}."
        )
    if not host and once(shapes_of_obs, env) != [x.shape[1:] for x in jax.tree.leaves(playing.obs)]:
        raise EnvError(
            f"collect: the state plays in another environment than env: its observations are {describe(playing.obs)}, those of env "
            f"{describe(struct_of(env.single_observation_space))}, once for each of {num_envs}. Use the same, or begin anew: {ANEW}."
        )


ANEW = "state._replace(playing=rl.collect.begin(state.policy, env, key=key))"


def shapes_of_obs(env: AnyVecEnv) -> list[tuple[int, ...]]:
    return [x.shape for x in jax.tree.leaves(struct_of(env.single_observation_space))]


def check_faults(faults: Int32[Array, "3"], env: AnyVecEnv) -> None:
    """Raise if an environment broke its contract in an earlier rollout. Inside a traced program nothing can be known yet."""
    if not is_concrete(faults) or not np.any(np.asarray(faults)):
        return
    found = ", ".join(f"{count} {what}" for count, what in zip(np.asarray(faults), FAULTS, strict=True) if count)
    name = type(env.env).__name__ if isinstance(env, VecEnv) else repr(env)
    raise EnvError(
        f"{name} gave {found} in the rollouts so far. Find the step with rl.check_env({name}(...)), or train on after rl.collect.begin."
    )
