"""From an observation of any space to features: the part that networks share, and the checks of how it is asked for."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import equinox as eqx
import gymnasium
import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from rl4jax.core.errors import is_count, require
from rl4jax.core.vec_env import check_vec_env

from .gru import GRU
from .lstm import LSTM
from .mlp import MLP, Activation, Norm
from .multi_encoder import MultiEncoder
from .recurrent import AbstractCore

CORES = {"lstm": LSTM, "gru": GRU}


@runtime_checkable
class HasSpaces(Protocol):
    """A vector environment, as far as a network needs to know it."""

    @property
    def single_observation_space(self) -> gymnasium.Space: ...

    @property
    def single_action_space(self) -> gymnasium.Space: ...


class Trunk(eqx.Module):
    """From an observation to features: a `MultiEncoder`, then an MLP, then perhaps a recurrent core."""

    encoder: MultiEncoder
    mlp: MLP
    core: AbstractCore | None

    def __init__(
        self,
        space: gymnasium.Space,
        hidden: Sequence[int],
        activation: str | Activation,
        core: str | None,
        norm: Norm = None,
        *,
        key: PRNGKeyArray,
    ):
        encoder_key, mlp_key, core_key = jax.random.split(key, 3)
        self.encoder = MultiEncoder(space, key=encoder_key)
        self.mlp = MLP(self.encoder.d_out, hidden, activation, norm, key=mlp_key)
        self.core = None if core is None else CORES[core](hidden[-1], hidden[-1], key=core_key)

    def initial_carry(self) -> PyTree:
        return None if self.core is None else self.core.initial_carry()

    def __call__(self, obs: PyTree, carry: PyTree) -> tuple[Float[Array, " H"], PyTree]:
        x = self.mlp(self.encoder(obs))
        return (x, None) if self.core is None else self.core(x, carry)

    def along(self, obs: PyTree, carry: PyTree, is_first: Bool[Array, "T B"]) -> tuple[Float[Array, "T B H"], PyTree]:
        """The features of whole columns `[T, B, ...]`, and the memory after each step: only the core goes through them step by step."""
        assert self.core is not None
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), obs)
        x = jax.vmap(lambda obs: self.mlp(self.encoder(obs)))(flat)
        carries = self.core.along(x.reshape(*is_first.shape, -1), carry, is_first)
        return jax.tree.leaves(carries)[0], carries


def check_network(name: str, env: HasSpaces, hidden: Sequence[int]) -> None:
    """Raise unless a network can be built for this environment with these layers."""
    check_vec_env(env, name)
    counts = isinstance(hidden, Sequence) and len(hidden) > 0 and all(is_count(h) for h in hidden)
    require(counts, f"{name}: hidden", hidden, "one positive integer per layer", "Use hidden=(64, 64).")
