"""A part of an action whose distribution depends on the parts chosen before it."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, PyTree

from rl4jax.core.number import Number

from .distribution import AbstractDistribution, Mask

Earlier = dict[Any, PyTree[Array]]  # what was chosen before, by the names of the parts
Head = Callable[[Earlier], AbstractDistribution]  # any eqx.Module of this form


class MaskedHead(eqx.Module):
    """A head without the actions that a mask forbids, whatever was chosen before."""

    head: Head
    mask: Mask

    def __call__(self, earlier: Earlier) -> AbstractDistribution:
        return self.head(earlier).masked(self.mask)


class TemperedHead(eqx.Module):
    """A head at a temperature."""

    head: Head
    temperature: Number

    def __call__(self, earlier: Earlier) -> AbstractDistribution:
        return self.head(earlier).tempered(self.temperature)
