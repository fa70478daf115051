"""The guard of every update: a step that is not finite is not taken."""

import functools
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

Tree = TypeVar("Tree")


def all_finite(tree: PyTree) -> Bool[Array, ""]:
    """Whether every number in a tree is finite; integers and what is no array are.

    By one sum over everything, which is cheaper than to look at each: numbers so large that their sum overflows count as not finite.
    """
    return jnp.isfinite(sum((x.sum() for x in jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))), jnp.zeros(())))


def keep_if(good: Bool[Array, ""], new: Tree, old: Tree) -> Tree:
    """The new tree if it is good, else the old one, which has the same structure. For use inside `jit`, where there is no `if`.

    >>> keep_if(all_finite(jnp.array(jnp.nan)), {"weight": jnp.ones(2)}, {"weight": jnp.zeros(2)})["weight"].tolist()
    [0.0, 0.0]
    """
    return jax.tree.map(functools.partial(jnp.where, good), new, old)
