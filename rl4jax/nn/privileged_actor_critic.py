"""A policy and a critic that sees more: the hidden state of a game while it trains (Pinto et al. 2018, asymmetric actor-critic)."""

from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from rl4jax.core.errors import EnvError, require
from rl4jax.core.spaces import parts_of
from rl4jax.core.vec_env import VecEnv

from .action_head import ActionHead, LogStd
from .distributions import AbstractDistribution
from .linear import Linear
from .mlp import Activation, Norm
from .orthogonal import VALUE_GAIN, orthogonal_linear
from .trunk import CORES, Trunk, check_network

NAME = "privileged"  # beside the parts of the observation


class PrivilegedActorCritic(eqx.Module):
    """`model(obs) -> (distribution, value)` like `ActorCritic`, but training asks a critic that also sees `env.privileged(state)`.

    Actor and critic have networks of their own. With a `core` the actor remembers; the critic does not, since it is shown what there is
    to know. Without privileged observations, as when it is deployed, the value is 0 and means nothing. Options are those of `ActorCritic`.
    """

    actor: Trunk
    policy: ActionHead
    critic: Trunk
    value: Linear

    def __init__(
        self,
        env: VecEnv,
        *,
        key: PRNGKeyArray,
        hidden: Sequence[int] = (64, 64),
        activation: str | Activation = "tanh",
        norm: Norm = None,
        core: Literal["lstm", "gru"] | None = None,
        log_std: LogStd = "parameter",
        squash: bool = False,
    ):
        check_network("PrivilegedActorCritic", env, hidden)
        require(core is None or core in CORES, "PrivilegedActorCritic: core", core, "None, 'lstm' or 'gru'")
        actor_key, critic_key, policy_key, value_key = jax.random.split(key, 4)
        seen = spaces.Dict(beside(env.single_observation_space, privileged_space(env)))
        self.actor = Trunk(env.single_observation_space, hidden, activation, core, norm, key=actor_key)
        self.policy = ActionHead(env.single_action_space, hidden[-1], key=policy_key, log_std=log_std, squash=squash)
        self.critic = Trunk(seen, hidden, activation, None, norm, key=critic_key)
        self.value = orthogonal_linear(hidden[-1], 1, VALUE_GAIN, key=value_key)

    def initial_carry(self) -> PyTree:
        """The memory of the actor at the start of an episode; None without a core."""
        return self.actor.initial_carry()

    def __call__(
        self, obs: PyTree, carry: PyTree = None
    ) -> tuple[AbstractDistribution, Float[Array, ""], PyTree] | tuple[AbstractDistribution, Float[Array, ""]]:
        features, next_carry = self.actor(obs, carry)
        pi, value = self.policy(features), jnp.zeros(())
        return (pi, value) if carry is None else (pi, value, next_carry)

    def privileged_value(self, obs: PyTree, privileged: PyTree) -> Float[Array, ""]:
        """The value by the critic."""
        features, _ = self.critic(beside(obs, flat(privileged)), None)
        return self.value(features)[0]


def privileged_space(env: VecEnv) -> spaces.Box:
    """The space of the privileged observations of an environment, all in a row."""
    shown = jax.eval_shape(lambda: env.privileged(env.reset(jax.random.key(0))[0])) if isinstance(env, VecEnv) else None
    if shown is None:
        name = type(env.env).__name__ if isinstance(env, VecEnv) else type(env).__name__
        raise EnvError(
            f"PrivilegedActorCritic: {name} shows nothing to a critic. Implement privileged(state) in it, or use rl.nn.ActorCritic."
        )
    size = sum(int(np.prod(x.shape[1:])) for x in jax.tree.leaves(shown))
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)


def flat(privileged: PyTree) -> Float[Array, " P"]:
    """All arrays in a row, as floats."""
    return jnp.concatenate([jnp.ravel(x).astype(jnp.float32) for x in jax.tree.leaves(privileged)])


def beside(obs: Any, privileged: Any) -> dict[str, Any]:
    """An observation, or its space, and the privileged one as a dict: so images keep their CNN."""
    parts = parts_of(obs) if isinstance(obs, dict | tuple | spaces.Dict | spaces.Tuple) else {"obs": obs}
    if NAME in parts:
        raise EnvError(f"PrivilegedActorCritic: the observation has a part called {NAME!r} itself. Give it another name.")
    return {**parts, NAME: privileged}
