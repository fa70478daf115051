"""A Q-network as a policy: what plays, evaluates and records takes it like any other model."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, PyTree

from rl4jax.core.contract import describe
from rl4jax.core.errors import EnvError, ShapeError
from rl4jax.core.spaces import struct_of

from .distributions.epsilon_greedy import EpsilonGreedy
from .packed import Packed, Rest

QModel = Callable[..., Any]  # any eqx.Module from an observation to a value for each action, [A]


class QPolicy(eqx.Module):
    """`policy(obs) -> (EpsilonGreedy, value)`: the best action by the Q-network, or with probability `epsilon` any; and its value."""

    model: Any
    epsilon: Float[Array | np.ndarray, ""]

    def __call__(self, obs: PyTree) -> tuple[EpsilonGreedy, Float[Array, ""]]:
        q_values = self.model(obs)
        return EpsilonGreedy(q_values, self.epsilon), q_values.max()


def pack_policy(packed: Packed, epsilon: Float[Any, ""]) -> Packed:
    """`pack(QPolicy(packed.model, epsilon))`, without putting the model together: that would take longer than a small network."""
    names, rest = _policy_parts(packed.rest)
    params = {names[name]: x for name, x in packed.params.items()}
    return Packed(params | {"epsilon": epsilon}, {names[name]: x for name, x in packed.buffers.items()}, rest)


@functools.lru_cache(maxsize=64)
def _policy_parts(rest: Rest) -> tuple[dict[str, str], Rest]:
    """The names that the leaves of a model have inside of a policy, and the rest of the policy."""
    names = {name: f"model.{name}" for name in rest.names}
    model = jax.tree.unflatten(rest.treedef, [np.zeros(()) if leaf is None else leaf for leaf in rest.leaves])
    treedef = jax.tree.structure(QPolicy(model, np.zeros(())))
    return names, Rest(treedef, (*names.values(), "epsilon"), (*rest.leaves, None))


def check_q_model(model: Any, observation_space: gymnasium.Space, action_space: gymnasium.Space) -> None:
    """Raise a clear error unless the model maps one observation to one value for each action."""
    name = type(model).__name__
    if isinstance(model, type) or not callable(model):
        raise TypeError(f"model is a {name}; it must be an eqx.Module that is called with one observation: rl.nn.QNetwork(env, key=key).")
    if not isinstance(action_space, spaces.Discrete):
        raise EnvError(f"Q-learning needs Discrete actions, one value each, but there are {action_space}. For others use PPO: rl.ppo.")
    answer = jax.eval_shape(model, struct_of(observation_space))
    if isinstance(answer, tuple):
        raise TypeError(f"{name}: one observation gave a tuple; a Q-network gives one array of values. Use rl.nn.QNetwork(env, key=key).")
    wanted = (int(action_space.n),)
    if not hasattr(answer, "dtype") or answer.shape != wanted or not jnp.issubdtype(answer.dtype, jnp.floating):
        raise ShapeError(f"{name}: one observation gave {describe(answer)}; it must be floats of shape {wanted}, a value for each action.")
