"""A policy and a value function, built from the spaces of an environment."""

from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from rl4jax.core.errors import require

from .action_head import ActionHead, LogStd
from .distributions import AbstractDistribution
from .linear import Linear
from .mlp import Activation, Norm
from .orthogonal import VALUE_GAIN, orthogonal_linear
from .trunk import CORES, HasSpaces, Trunk, check_network


class ActorCritic(eqx.Module):
    """`model(obs) -> (distribution, value)` for the spaces of `env`; with a `core`, `model(obs, carry) -> (distribution, value, carry)`.

    `hidden` are the sizes of the MLP, `activation` a name or a function, `norm` that of each layer: None, "layer" or "rms".
    Actor and critic have networks of their own unless `shared`. `core` is None, "lstm" or "gru", as large as the last hidden layer.
    `log_std` and `squash` are for continuous actions: see `ActionHead`. Weights are orthogonal with gains sqrt(2), 0.01
    for the policy and 1 for the value.
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
        norm: Norm = None,
        shared: bool = False,
        core: Literal["lstm", "gru"] | None = None,
        log_std: LogStd = "parameter",
        squash: bool = False,
    ):
        check_network("ActorCritic", env, hidden)
        require(core is None or core in CORES, "ActorCritic: core", core, "None, 'lstm' or 'gru'")
        actor_key, critic_key, policy_key, value_key = jax.random.split(key, 4)
        trunk_keys = (actor_key,) if shared else (actor_key, critic_key)
        self.trunks = tuple(Trunk(env.single_observation_space, hidden, activation, core, norm, key=k) for k in trunk_keys)
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
        answer = self.answer(features)
        return answer if carry is None else (*answer, carries)

    def along(self, obs: PyTree, carry: PyTree, is_first: Bool[Array, "T B"]) -> tuple[PyTree, PyTree]:
        """What `answer` takes, of whole columns `[T, B, ...]`, and the memories after each step."""
        features, carries = zip(*(trunk.along(obs, c, is_first) for trunk, c in zip(self.trunks, carry, strict=True)), strict=True)
        return features, carries

    def answer(self, features: tuple[Float[Array, " H"], ...]) -> tuple[AbstractDistribution, Float[Array, ""]]:
        """Distribution and value from the features of the trunks."""
        return self.policy(features[0]), self.value(features[-1])[0]
