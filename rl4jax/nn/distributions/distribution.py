"""What a distribution over actions is, and the checks they share."""

import abc
from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from rl4jax.core.errors import ShapeError, require
from rl4jax.core.number import Number, is_concrete

from .chance import Chance, draw

Mask = Bool[Array | np.ndarray, " A"] | None  # true = allowed; flat, in the order of `gymnasium.spaces.flatten`


class AbstractDistribution(eqx.Module):
    """A distribution over the actions that follow one observation.

    It has no batch axis and never leaves a vmapped function: map the function that builds and uses it. `entropy` and `kl` take
    the action for heads whose later parts depend on the earlier ones; the others ignore it.
    """

    @property
    @abc.abstractmethod
    def mask_size(self) -> int:
        """How many entries of a flat mask belong to it: `gymnasium.spaces.flatdim` of its action space."""

    @property
    @abc.abstractmethod
    def maskable(self) -> bool:
        """Whether a mask means anything to it: false if its actions are continuous."""

    @property
    @abc.abstractmethod
    def chance(self) -> PyTree[Chance]:
        """What is random in one action. It depends on shapes only, so it can be drawn before the parameters are known."""

    def noise(self, key: PRNGKeyArray) -> PyTree[Array]:
        """The chance in one action, drawn."""
        return draw(self.chance, key)

    @abc.abstractmethod
    def sample_from(self, noise: PyTree[Array]) -> PyTree[Array]:
        """The action that this noise leads to."""

    def sample(self, key: PRNGKeyArray) -> PyTree[Array]:
        """A random action."""
        return self.sample_from(self.noise(key))

    @abc.abstractmethod
    def log_prob(self, action: PyTree[Array]) -> Float[Array, ""]:
        """Logarithm of the probability, or of the density, of an action."""

    @abc.abstractmethod
    def entropy(self, action: PyTree[Array] | None = None) -> Float[Array, ""]:
        """`-E[log_prob(a)]`, in nats."""

    @abc.abstractmethod
    def kl(self, other: "AbstractDistribution", action: PyTree[Array] | None = None) -> Float[Array, ""]:
        """`KL(self || other) = E[log_prob(a) - other.log_prob(a)]` over actions of self, in nats."""

    @abc.abstractmethod
    def mode(self) -> PyTree[Array]:
        """The action to take without randomness."""

    @abc.abstractmethod
    def masked(self, mask: Mask) -> "AbstractDistribution":
        """The same distribution without the actions that the mask forbids; itself if mask is None."""

    @abc.abstractmethod
    def tempered(self, temperature: Number) -> "AbstractDistribution":
        """The distribution proportional to `p(a)^(1 / temperature)`: flatter above 1, sharper below. What is forbidden stays so."""


Distribution = TypeVar("Distribution", bound=AbstractDistribution)


def same_kind(one: Distribution, other: AbstractDistribution) -> Distribution:
    """`other`, once it is known to be comparable with `one`."""
    name = type(one).__name__
    if type(other) is not type(one):
        raise TypeError(f"{name}.kl: other is a {type(other).__name__}; it must be a {name} too.")
    if other.mask_size != one.mask_size:
        raise ShapeError(f"{name}.kl: other has size {other.mask_size}, self {one.mask_size}; both must have the same action space.")
    return other


def check_vector(name: str, x: Any) -> None:
    """Raise unless x has one axis."""
    if jnp.ndim(x) != 1:
        raise ShapeError(f"{name} has shape {jnp.shape(x)}; it must have one axis. For a batch use jax.vmap around what calls it.")


def check_action(owner: AbstractDistribution, action: Any, shape: tuple[int, ...]) -> None:
    """Raise unless the action has this shape: an accidental batch would broadcast and be summed."""
    if jnp.shape(action) != shape:
        raise ShapeError(
            f"{type(owner).__name__}.log_prob: action has shape {jnp.shape(action)}; it must be {shape}. For a batch use jax.vmap."
        )


def check_mask(owner: AbstractDistribution, mask: Any) -> None:
    """Raise unless the mask is a flat array of bools of the right length."""
    if jnp.shape(mask) != (owner.mask_size,) or jnp.result_type(mask) != jnp.bool_:
        raise ShapeError(
            f"{type(owner).__name__}.masked: mask is {jnp.result_type(mask)} {jnp.shape(mask)}; "
            f"it must be bool ({owner.mask_size},), true where allowed. For a batch use jax.vmap."
        )


def refuse_mask(owner: AbstractDistribution, mask: Any) -> None:
    """Raise unless there is no mask, for continuous actions."""
    if mask is not None:
        raise ShapeError(
            f"{type(owner).__name__}.masked: mask has shape {jnp.shape(mask)}; continuous actions cannot be masked. "
            "Use masked(None), or a Composite, which passes masks to its discrete parts only."
        )


def check_temperature(owner: AbstractDistribution, temperature: Any) -> None:
    """Raise unless the temperature is a positive number, as far as it can be looked at."""
    if is_concrete(temperature):
        good = jnp.ndim(temperature) == 0 and bool(np.isfinite(temperature) & (np.asarray(temperature) > 0))
        fix = "For the most likely action alone use mode()."
        require(good, f"{type(owner).__name__}.tempered: temperature", temperature, "a positive number", fix)
