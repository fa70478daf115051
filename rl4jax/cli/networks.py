"""What can be told of a network on the command line. The comments are the texts of `--help`."""

import dataclasses
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from jaxtyping import PRNGKeyArray

    from rl4jax.collect.playing import AnyVecEnv


@dataclasses.dataclass(frozen=True)
class FeedForwardOptions:
    """A policy and a value function without a memory."""

    hidden: tuple[int, ...] = (64, 64)  # sizes of the layers of the network
    activation: str = "tanh"  # elu, gelu, relu, silu or tanh
    norm: Literal["none", "layer", "rms"] = "none"  # of each layer, before its activation
    shared: bool = False  # one trunk for policy and value
    log_std: Literal["parameter", "model"] = "parameter"  # continuous actions: one spread for all states, or one that the model computes
    squash: bool = False  # continuous actions: keep them inside their box by tanh instead of by clipping

    def build(self, env: "AnyVecEnv", key: "PRNGKeyArray") -> Any:
        from rl4jax.nn.actor_critic import ActorCritic

        return ActorCritic(env, key=key, **arguments(self))


@dataclasses.dataclass(frozen=True)
class ActorCriticOptions(FeedForwardOptions):
    """The same, with a memory if asked for."""

    core: Literal["none", "lstm", "gru"] = "none"  # a memory after the last layer


@dataclasses.dataclass(frozen=True)
class QNetworkOptions:
    """A value for each action."""

    hidden: tuple[int, ...] = (64, 64)  # sizes of the layers of the network
    activation: str = "relu"  # elu, gelu, relu, silu or tanh
    norm: Literal["none", "layer", "rms"] = "none"  # of each layer, before its activation
    dueling: bool = False  # the value of a state and the advantages of its actions are learned apart

    def build(self, env: "AnyVecEnv", key: "PRNGKeyArray") -> Any:
        from rl4jax.nn.q_network import QNetwork

        return QNetwork(env, key=key, **arguments(self))


@dataclasses.dataclass(frozen=True)
class WorldModelOptions:
    """A world model, and a policy and a critic in it."""

    size: Literal["tiny", "1m", "12m", "25m", "50m", "100m", "200m", "400m"] = "12m"  # of all networks, in parameters
    representation: Literal["decoder", "blurred", "barlow", "infonce", "prototypes", "none"] = "decoder"  # how latents learn what is seen

    def build(self, env: "AnyVecEnv", key: "PRNGKeyArray") -> Any:
        from rl4jax.algo.dreamer import Agent

        return Agent(env, self.size, self.representation, key=key)


def arguments(options: Any) -> dict[str, Any]:
    """The options as a network takes them."""
    return {name: None if value == "none" else value for name, value in dataclasses.asdict(options).items()}
