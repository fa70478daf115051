"""A policy and a value function, built from the spaces of an environment."""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from rl4jax.core.errors import is_count, require
from rl4jax.core.spaces import StaticSpace, flatten
from rl4jax.core.vec_env import check_vec_env

from .action_head import ActionHead, LogStd
from .cnn import CNN
from .distributions import AbstractDistribution
from .linear import Linear
from .mlp import MLP, Activation
from .orthogonal import VALUE_GAIN, orthogonal_linear
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


class ActorCritic(eqx.Module):
    """`model(obs) -> (distribution, value)` for the spaces of `env`; with a `core`, `model(obs, carry) -> (distribution, value, carry)`.

    `hidden` are the sizes of the MLP, `activation` a name or a function. Actor and critic have networks of their own unless `shared`.
    `core` is None, "lstm" or "gru", as large as the last hidden layer. `log_std` and `squash` are for continuous actions: see
    `ActionHead`. Weights are orthogonal with gains sqrt(2), 0.01 for the policy and 1 for the value.
    """

    trunks: tuple[Trunk, ...]  # of actor and critic, or one for both
    policy: ActionHead
    value: Linear

    def __init__(
        self,
        env: HasSpaces,
        *,
        key: PRNGKeyArray,
        hidden: Sequence[int] = (64, 64),
        activation: str | Activation = "tanh",
        shared: bool = False,
        core: Literal["lstm", "gru"] | None = None,
        log_std: LogStd = "parameter",
        squash: bool = False,
    ):
        check_vec_env(env, "ActorCritic")
        fix = "Use hidden=(64, 64)."
        require(
            isinstance(hidden, Sequence) and len(hidden) > 0 and all(is_count(h) for h in hidden),
            "ActorCritic: hidden",
            hidden,
            "one positive integer per layer",
            fix,
        )
        require(core is None or core in CORES, "ActorCritic: core", core, "None, 'lstm' or 'gru'")
        actor_key, critic_key, policy_key, value_key = jax.random.split(key, 4)
        trunk_keys = (actor_key,) if shared else (actor_key, critic_key)
        self.trunks = tuple(Trunk(env.single_observation_space, hidden, activation, core, key=k) for k in trunk_keys)
        self.policy = ActionHead(env.single_action_space, hidden[-1], key=policy_key, log_std=log_std, squash=squash)
        self.value = orthogonal_linear(hidden[-1], 1, VALUE_GAIN, key=value_key)

    def initial_carry(self) -> PyTree:
        """The memories of the trunks at the start of an episode; None without a core."""
        return None if self.trunks[0].core is None else tuple(trunk.initial_carry() for trunk in self.trunks)

    def __call__(
        self, obs: PyTree, carry: PyTree = None
    ) -> tuple[AbstractDistribution, Float[Array, ""], PyTree] | tuple[AbstractDistribution, Float[Array, ""]]:
        carries = (None,) * len(self.trunks) if carry is None else carry
        features, carries = zip(*(trunk(obs, c) for trunk, c in zip(self.trunks, carries, strict=True)), strict=True)
        pi, value = self.policy(features[0]), self.value(features[-1])[0]
        return (pi, value) if carry is None else (pi, value, carries)


def _parts(tree) -> dict:
    """The parts of a Dict or Tuple (of a space or of an observation) by name; of anything else one, without a name."""
    if isinstance(tree, dict | spaces.Dict):
        return dict(tree.items())
    if isinstance(tree, tuple | spaces.Tuple):
        return {str(i): part for i, part in enumerate(tree)}
    return {"": tree}


def _is_image(space: gymnasium.Space) -> bool:
    return isinstance(space, spaces.Box) and len(space.shape) == 3
