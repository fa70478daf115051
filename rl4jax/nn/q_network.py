"""A value for each action, built from the spaces of an environment."""

from collections.abc import Sequence

import equinox as eqx
import jax
from gymnasium import spaces
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from rl4jax.core.errors import EnvError

from .linear import Linear
from .mlp import Activation, Norm
from .orthogonal import VALUE_GAIN, orthogonal_linear
from .trunk import HasSpaces, Trunk, check_network


class QNetwork(eqx.Module):
    """`model(obs) -> q_values` for the spaces of `env`, whose actions must be `Discrete`.

    `hidden` are the sizes of the MLP, `activation` a name or a function, `norm` that of each layer: None, "layer" or "rms".
    `dueling` (Wang et al. 2016) learns the value of a state and the advantages of the actions apart: `q = v + a - mean(a)`.
    """

    trunk: Trunk
    advantage: Linear  # or the q-values themselves
    value: Linear | None

    def __init__(
        self,
        env: HasSpaces,
        *,
        key: PRNGKeyArray,
        hidden: Sequence[int] = (64, 64),
        activation: str | Activation = "relu",
        norm: Norm = None,
        dueling: bool = False,
    ):
        check_network("QNetwork", env, hidden)
        space = env.single_action_space
        if not isinstance(space, spaces.Discrete):
            raise EnvError(f"QNetwork: the actions are {space}; they must be Discrete, one value each. For others use PPO: rl.ppo.")
        trunk_key, advantage_key, value_key = jax.random.split(key, 3)
        self.trunk = Trunk(env.single_observation_space, hidden, activation, None, norm, key=trunk_key)
        self.advantage = orthogonal_linear(hidden[-1], int(space.n), VALUE_GAIN, key=advantage_key)
        self.value = orthogonal_linear(hidden[-1], 1, VALUE_GAIN, key=value_key) if dueling else None

    def __call__(self, obs: PyTree) -> Float[Array, " A"]:
        features, _ = self.trunk(obs, None)
        advantage = self.advantage(features)
        return advantage if self.value is None else self.value(features) + advantage - advantage.mean()
