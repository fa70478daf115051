"""Several distributions side by side."""

from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from rl4jax.core.errors import ShapeError, require
from rl4jax.core.number import Number

from .distribution import AbstractDistribution, Mask, check_mask, same_kind

Parts = dict[str, AbstractDistribution] | tuple[AbstractDistribution, ...]


def _in_order(parts: Parts) -> Parts:
    """A dict by name, as `jax.tree` and `gymnasium.spaces.Dict` have it; a tuple as it is."""
    return dict(sorted(parts.items())) if isinstance(parts, dict) else parts


class Composite(AbstractDistribution):
    """Independent parts, named or numbered: the actions of a `Dict` or `Tuple` space, as a dict or tuple of the parts' actions.

    `log p(a) = sum_i log p_i(a_i)`. Named parts are always in the order of their names, whatever the order they are given in. A mask is
    flat over all parts, in the order of `gymnasium.spaces.flatten`; a continuous part has a slice as long as its action, and ignores it.

    >>> from rl4jax.nn.distributions import Categorical, Normal
    >>> pi = Composite({"steer": Normal(jnp.zeros(2), jnp.zeros(2)), "gear": Categorical(jnp.array([0.0, 1.0]))})
    >>> print(pi.mask_size, pi.mode()["gear"])
    4 1
    """

    parts: Parts = eqx.field(converter=_in_order)

    def __check_init__(self):
        require(len(self.parts) > 0, "Composite.parts", self.parts, "a dict or tuple of at least one distribution")

    @property
    def mask_size(self) -> int:
        return sum(part.mask_size for part in self._values())

    @property
    def maskable(self) -> bool:
        return any(part.maskable for part in self._values())

    def noise(self, key: PRNGKeyArray) -> dict[str, Any] | tuple[Any, ...]:
        """That of each part."""
        keys = jax.random.split(key, len(self.parts))
        return self._pack(part.noise(k) for part, k in zip(self._values(), keys, strict=True))

    def sample_from(self, noise: PyTree[Array]) -> dict[str, Any] | tuple[Any, ...]:
        """A random action of each part."""
        return self._pack(part.sample_from(n) for part, n in zip(self._values(), self._split("sample_from", noise), strict=True))

    def log_prob(self, action: PyTree[Array]) -> Float[Array, ""]:
        """The sum over the parts."""
        return _total(part.log_prob(a) for part, a in zip(self._values(), self._split("log_prob", action), strict=True))

    def entropy(self, action: PyTree[Array] | None = None) -> Float[Array, ""]:
        """The sum over the parts."""
        return _total(part.entropy(a) for part, a in zip(self._values(), self._split("entropy", action), strict=True))

    def kl(self, other: AbstractDistribution, action: PyTree[Array] | None = None) -> Float[Array, ""]:
        """The sum over the parts."""
        other = same_kind(self, other)
        if self._names() != other._names():
            raise ShapeError(f"Composite.kl: other has the parts {other._names()}; they must be {self._names()}, as of self.")
        parts = zip(self._values(), other._values(), self._split("kl", action), strict=True)
        return _total(part.kl(other_part, a) for part, other_part, a in parts)

    def mode(self) -> dict[str, Any] | tuple[Any, ...]:
        """The mode of each part."""
        return self._pack(part.mode() for part in self._values())

    def masked(self, mask: Mask) -> "Composite":
        """Each discrete part without what its slice of the mask forbids; continuous parts as they are."""
        if mask is None:
            return self
        check_mask(self, mask)
        ends = np.cumsum([part.mask_size for part in self._values()])
        pairs = zip(self._values(), ends, strict=True)
        return Composite(self._pack(part.masked(mask[end - part.mask_size : end]) if part.maskable else part for part, end in pairs))

    def tempered(self, temperature: Number) -> "Composite":
        """Each part at that temperature."""
        return Composite(self._pack(part.tempered(temperature) for part in self._values()))

    def _names(self) -> list[Any]:
        return list(self.parts) if isinstance(self.parts, dict) else list(range(len(self.parts)))

    def _values(self) -> list[AbstractDistribution]:
        return list(self.parts.values() if isinstance(self.parts, dict) else self.parts)

    def _pack(self, values: Iterable[Any]) -> dict[str, Any] | tuple[Any, ...]:
        """A value per part, as a dict or a tuple like the parts."""
        return dict(zip(self.parts, values, strict=True)) if isinstance(self.parts, dict) else tuple(values)

    def _split(self, verb: str, action: PyTree[Array] | None) -> list[Any]:
        """The action of each part, all None if there is none."""
        if action is None:
            return [None for _ in self.parts]
        given = sorted(action) if isinstance(action, dict) else list(range(len(action))) if isinstance(action, tuple | list) else None
        if given != self._names():
            got = type(action).__name__ if given is None else f"{type(action).__name__} with the parts {given}"
            raise ShapeError(f"Composite.{verb}: action is a {got}; it must be a {type(self.parts).__name__} with {self._names()}.")
        return [action[name] for name in self._names()]


def _total(terms: Iterable[Float[Array, ""]]) -> Float[Array, ""]:
    return jnp.stack(list(terms)).sum()
