"""A policy that leaves nothing to chance, also where actions are drawn."""

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from rl4jax.core.number import Number
from rl4jax.nn.distributions.distribution import AbstractDistribution, Mask
from rl4jax.nn.model import initial_carry


class Greedy(eqx.Module):
    """A model whose every drawn action is the most likely one."""

    model: Any

    def initial_carry(self) -> PyTree:
        """That of the model."""
        return initial_carry(self.model)

    def __call__(self, obs: PyTree, *carry: PyTree) -> tuple:
        pi, *rest = self.model(obs, *carry)
        return MostLikely(pi), *rest


class MostLikely(AbstractDistribution):
    """A distribution of which only the mode is ever drawn; all else is as it was."""

    pi: AbstractDistribution

    @property
    def mask_size(self) -> int:
        return self.pi.mask_size

    @property
    def maskable(self) -> bool:
        return self.pi.maskable

    def noise(self, key: PRNGKeyArray) -> PyTree[Array]:
        return ()

    def sample_from(self, noise: PyTree[Array]) -> PyTree[Array]:
        return self.pi.mode()

    def log_prob(self, action: PyTree[Array]) -> Float[Array, ""]:
        return self.pi.log_prob(action)

    def entropy(self, action: PyTree[Array] | None = None) -> Float[Array, ""]:
        return self.pi.entropy(action)

    def kl(self, other: AbstractDistribution, action: PyTree[Array] | None = None) -> Float[Array, ""]:
        return self.pi.kl(other, action)

    def mode(self) -> PyTree[Array]:
        return self.pi.mode()

    def masked(self, mask: Mask) -> "MostLikely":
        return MostLikely(self.pi.masked(mask))

    def tempered(self, temperature: Number) -> AbstractDistribution:
        return self.pi.tempered(temperature)
