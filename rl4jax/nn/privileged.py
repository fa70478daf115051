"""What algorithms ask of a model whose critic sees more than its policy."""

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Float, PyTree

from rl4jax.core.errors import EnvError

from .model import Model, Normalized


@runtime_checkable
class Privileged(Protocol):
    """A model whose value needs more than the observation. Its `model(obs)` is for acting, and the value in it is not looked at."""

    def privileged_value(self, obs: PyTree, privileged: PyTree) -> Float[Array, ""]:
        """The value of a state, by what the policy sees and by what `env.privileged(state)` shows."""
        ...


class Informed(eqx.Module):
    """A privileged model with something to see: a model like any other."""

    model: Any
    privileged: PyTree

    def __call__(self, obs: PyTree, *carry: PyTree) -> tuple:
        pi, _, *rest = self.model(obs, *carry)
        return pi, self.model.privileged_value(obs, self.privileged), *rest


def informed(model: Model, privileged: PyTree) -> Model:
    """The model to ask for values: with what only its critic may see, or itself if it wants no such thing."""
    if isinstance(model, Normalized):
        return Normalized(informed(model.model, privileged), model.stats)
    if not isinstance(model, Privileged):
        return model
    if privileged is None:
        raise EnvError(
            f"{type(model).__name__}: its critic needs privileged observations, and the environment has none. Implement "
            f"privileged(state) in it, or use rl.nn.ActorCritic. (Environments on the host have none; to act, none are needed.)"
        )
    return Informed(model, privileged)
