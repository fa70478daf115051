"""From an observation of any space to features: the part that networks share, and the checks of how it is asked for."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from rl4jax.core.errors import is_count, require
from rl4jax.core.spaces import StaticSpace, flatten
from rl4jax.core.vec_env import check_vec_env

from .cnn import CNN
from .mlp import MLP, Activation
from .recurrent import GRU, LSTM

CORES = {"lstm": LSTM, "gru": GRU}


@runtime_checkable
class HasSpaces(Protocol):
    """A vector environment, as far as a network needs to know it."""

    @property
    def single_observation_space(self) -> gymnasium.Space: ...

    @property
    def single_action_space(self) -> gymnasium.Space: ...


class Trunk(eqx.Module):
    """From an observation to features: images through a CNN, everything else flat, then an MLP, then perhaps a recurrent core."""

    cnns: dict[str, CNN]
    mlp: MLP
    core: LSTM | GRU | None
    space: StaticSpace = eqx.field(static=True)

    def __init__(self, space: gymnasium.Space, hidden: Sequence[int], activation: str | Activation, core: str | None, *, key: PRNGKeyArray):
        cnn_key, mlp_key, core_key = jax.random.split(key, 3)
        images = {name: part for name, part in _parts(space).items() if _is_image(part)}
        keys = jax.random.split(cnn_key, max(len(images), 1))
        self.space = StaticSpace(space)
        self.cnns = {name: CNN(part.shape or (), key=k) for (name, part), k in zip(images.items(), keys, strict=False)}
        d_flat = sum(int(spaces.flatdim(part)) for name, part in _parts(space).items() if name not in images)
        d_images = sum(cnn.linear.bias.size for cnn in self.cnns.values())
        self.mlp = MLP(d_flat + d_images, hidden, activation, key=mlp_key)
        self.core = None if core is None else CORES[core](hidden[-1], hidden[-1], key=core_key)

    def initial_carry(self) -> PyTree:
        return None if self.core is None else self.core.initial_carry()

    def __call__(self, obs: PyTree, carry: PyTree) -> tuple[Float[Array, " H"], PyTree]:
        seen = _parts(obs) if isinstance(self.space.space, spaces.Dict | spaces.Tuple) else {"": obs}
        parts = [self.cnns[n](seen[n]) if n in self.cnns else flatten(s, seen[n]) for n, s in _parts(self.space.space).items()]
        x = self.mlp(jnp.concatenate(parts) if len(parts) > 1 else parts[0])
        return (x, None) if self.core is None else self.core(x, carry)


def check_network(name: str, env: HasSpaces, hidden: Sequence[int]) -> None:
    """Raise unless a network can be built for this environment with these layers."""
    check_vec_env(env, name)
    counts = isinstance(hidden, Sequence) and len(hidden) > 0 and all(is_count(h) for h in hidden)
    require(counts, f"{name}: hidden", hidden, "one positive integer per layer", "Use hidden=(64, 64).")


def _parts(tree) -> dict:
    """The parts of a Dict or Tuple (of a space or of an observation) by name; of anything else one, without a name."""
    if isinstance(tree, dict | spaces.Dict):
        return dict(tree.items())
    if isinstance(tree, tuple | spaces.Tuple):
        return {str(i): part for i, part in enumerate(tree)}
    return {"": tree}


def _is_image(space: gymnasium.Space) -> bool:
    return isinstance(space, spaces.Box) and len(space.shape) == 3
