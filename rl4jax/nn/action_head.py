"""From features to a distribution over the actions of a space."""

from typing import Literal

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, PRNGKeyArray

from rl4jax.core.errors import EnvError, require
from rl4jax.core.spaces import StaticSpace

from .distributions import AbstractDistribution, Categorical, Composite, MultiCategorical, Normal, TanhNormal
from .linear import Linear
from .orthogonal import POLICY_GAIN, orthogonal_linear

LogStd = Literal["parameter", "model"]


class ActionHead(eqx.Module):
    """A linear layer per part of the action space, read as logits or as mean and log standard deviation.

    | space | distribution |
    |---|---|
    | Discrete | `Categorical` |
    | MultiDiscrete | `MultiCategorical` |
    | Box | `Normal`, or with `squash=True` a `TanhNormal` that stays inside the box |
    | Dict, Tuple | `Composite` of independent parts |

    `log_std="parameter"` learns one standard deviation per action dimension, the same in every state; `"model"` computes it from the
    features. Both begin at 1.
    """

    linear: Linear | None
    log_std: Float[Array, "..."] | None
    parts: dict[str, "ActionHead"] | tuple["ActionHead", ...] | None
    space: StaticSpace = eqx.field(static=True)
    squash: bool = eqx.field(static=True)

    def __init__(self, space: gymnasium.Space, d_in: int, *, key: PRNGKeyArray, log_std: LogStd = "parameter", squash: bool = False):
        require(log_std in ("parameter", "model"), "ActionHead: log_std", log_std, "'parameter' or 'model'")
        self.space, self.squash = StaticSpace(space), squash
        self.linear = self.log_std = self.parts = None
        if isinstance(space, spaces.Dict) and list(space) != sorted(space):
            raise EnvError(
                f"ActionHead: the parts of {space} must be in alphabetical order, as JAX keeps them: the flat mask has that order."
            )
        if isinstance(space, spaces.Dict | spaces.Tuple):
            named = dict(space.items()) if isinstance(space, spaces.Dict) else {str(i): part for i, part in enumerate(space)}
            keys = jax.random.split(key, max(len(named), 1))
            heads = {n: ActionHead(s, d_in, key=k, log_std=log_std, squash=squash) for (n, s), k in zip(named.items(), keys, strict=True)}
            self.parts = heads if isinstance(space, spaces.Dict) else tuple(heads.values())
            return
        if isinstance(space, spaces.Box):
            _check_box(space, squash)
            size = int(np.prod(space.shape))
            self.log_std = jnp.zeros(space.shape) if log_std == "parameter" else None
            d_out = size if log_std == "parameter" else 2 * size
        elif isinstance(space, spaces.Discrete):
            d_out = int(space.n)
        elif isinstance(space, spaces.MultiDiscrete):
            d_out = int(space.nvec.sum())
        else:
            raise EnvError(f"ActionHead: {space} is not an action space we know. Use Discrete, MultiDiscrete, Box, Dict or Tuple.")
        self.linear = orthogonal_linear(d_in, d_out, POLICY_GAIN, key=key)

    def __call__(self, features: Float[Array, " D"]) -> AbstractDistribution:
        if isinstance(self.parts, dict):
            return Composite({name: head(features) for name, head in self.parts.items()})
        if self.parts is not None:
            return Composite(tuple(head(features) for head in self.parts))
        assert self.linear is not None
        out, space = self.linear(features), self.space.space
        if isinstance(space, spaces.Discrete):
            return Categorical(out)
        if isinstance(space, spaces.MultiDiscrete):
            return MultiCategorical(out, tuple(int(n) for n in space.nvec.ravel()), space.shape)
        assert isinstance(space, spaces.Box)
        if self.log_std is None:
            mean, log_std = jnp.split(out.reshape(2, *space.shape), 2)
            mean, log_std = mean[0], log_std[0]
        else:
            mean, log_std = out.reshape(space.shape), self.log_std
        return TanhNormal(mean, log_std, space.low, space.high) if self.squash else Normal(mean, log_std)


def _check_box(space: spaces.Box, squash: bool) -> None:
    if space.dtype is None or np.dtype(space.dtype).kind != "f":
        raise EnvError(f"ActionHead: {space} holds integers; continuous actions must be floats. Use MultiDiscrete for choices.")
    if squash and not space.is_bounded():
        raise EnvError(f"ActionHead: squash=True needs finite bounds, and {space} has none. Leave squash away.")
