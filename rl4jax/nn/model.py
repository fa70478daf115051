"""What the algorithms ask of a model: `model(obs) -> (distribution, value)`, or with a carry if it is recurrent.

A recurrent model also has `initial_carry()`, the memory at the start of an episode; None, or no such method, means that it has none.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from rl4jax.core.running_stats import RunningStats

from .distributions import AbstractDistribution
from .distributions.chance import Chance

Model = Callable[..., tuple]  # any eqx.Module of the form above


@runtime_checkable
class Recurrent(Protocol):
    """A model that has a memory."""

    def initial_carry(self) -> PyTree:
        """The memory at the start of an episode; None if there is none."""


@runtime_checkable
class Sequential(Protocol):
    """A model with a memory that can go through whole columns `[T, B, ...]` quicker than step by step. It need not."""

    def along(self, obs: PyTree, carry: PyTree, is_first: Bool[Array, "T B"]) -> tuple[PyTree, PyTree]:
        """Features `[T, B, ...]` of each step, and the memory after it. `is_first` marks the steps before which it begins anew."""
        ...

    def answer(self, features: PyTree) -> tuple[AbstractDistribution, Float[Array, ""]]:
        """What the model says of one step, given its features."""
        ...


@runtime_checkable
class Actor(Protocol):
    """A recurrent model that chooses by itself, because its memory has to know what it did, or is random too. Most models do not."""

    @property
    def chance(self) -> PyTree[Chance]:
        """What is random in one step."""

    def act(self, obs: PyTree, carry: PyTree, mask: Bool[Array, " A"] | None, noise: PyTree[Array] | None) -> tuple:
        """The action, its distribution, the value and the next carry; without noise what is most likely."""
        ...


def decide(
    model: Model, obs: PyTree, carry: PyTree, mask: Bool[Array, " A"] | None, noise: PyTree[Array] | None
) -> tuple[PyTree, AbstractDistribution, Float[Array, ""], PyTree]:
    """An action for one observation, sampled, or without noise the most likely one; its distribution, the value and the next carry."""
    if isinstance(model, Actor):
        return model.act(obs, carry, mask, noise)
    pi, value, next_carry = apply(model, obs, carry, mask)
    return pi.mode() if noise is None else pi.sample_from(noise), pi, value, next_carry


def choose(
    model: Model, obs: PyTree, carry: PyTree, mask: Bool[Array, " A"] | None, noise: PyTree[Array] | None
) -> tuple[PyTree, Float[Array, ""], PyTree]:
    """An action for one observation, sampled, or without noise the most likely one; its log-probability and the next carry."""
    action, pi, _, next_carry = decide(model, obs, carry, mask, noise)
    return action, pi.log_prob(action), next_carry


def chance_of(model: Model, obs: PyTree, carry: PyTree) -> PyTree[Chance]:
    """What is random in one action of this model: it depends on shapes only."""
    return model.chance if isinstance(model, Actor) else eqx.filter_eval_shape(lambda: apply(model, obs, carry)[0]).chance


def initial_carry(model: Model) -> PyTree:
    """The memory of a model at the start of an episode; None if it is feed-forward."""
    return model.initial_carry() if isinstance(model, Recurrent) else None


def apply(
    model: Model, obs: PyTree, carry: PyTree, mask: Bool[Array, " A"] | None = None
) -> tuple[AbstractDistribution, Float[Array, ""], PyTree]:
    """Call either kind of model: its distribution over what the mask allows, its value and the next carry."""
    pi, value, carry = (*model(obs), None) if carry is None else model(obs, carry)
    return pi.masked(mask), value, carry


def reset_carry(model: Model, carry: PyTree, is_first: Bool[Array, ""] | None) -> PyTree:
    """The memory to act with: a fresh one if this is the first step of an episode. Without a memory `is_first` may be None."""
    return None if is_first is None else jax.tree.map(lambda fresh, old: jnp.where(is_first, fresh, old), initial_carry(model), carry)


class Normalized(eqx.Module):
    """A model that sees observations through running statistics: what a run with `normalize_obs` learned, ready to act."""

    model: Any
    stats: RunningStats

    def initial_carry(self) -> PyTree:
        """That of the model."""
        return initial_carry(self.model)

    def __call__(self, obs: PyTree, *carry: PyTree) -> tuple:
        return self.model(jax.lax.stop_gradient(self.stats).normalize(obs), *carry)  # statistics are no weights: nothing learns them
