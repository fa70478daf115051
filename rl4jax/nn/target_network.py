"""Target networks that follow slowly (Polyak and Juditsky 1992; Lillicrap et al. 2016)."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from rl4jax.core.errors import ShapeError, require
from rl4jax.core.number import Number, is_concrete

Tree = TypeVar("Tree")
ALIKE = "They must be built alike: begin with target = source."


def polyak(target: Tree, source: Tree, tau: Number) -> Tree:
    """Move the target a step towards the source: `tau * source + (1 - tau) * target`, leaf by leaf of any pytree.

    1 copies the source, 0 leaves the target. Floats are averaged, in the dtype of the target. Other arrays, such as counters, cannot be:
    they are the source's, unless tau is 0. Random keys stay the target's own. What is no array is the source's.

    >>> polyak({"weight": jnp.zeros(2)}, {"weight": jnp.ones(2)}, 0.25)["weight"].tolist()
    [0.25, 0.25]
    """
    if is_concrete(tau):
        inside = bool(np.all((np.asarray(tau) >= 0) & (np.asarray(tau) <= 1)))
        require(inside, "polyak: tau", tau, "in [0, 1]: 0 leaves the target, 1 copies the source")
    _check_alike(target, source)

    def step(old, new):
        if eqx.is_inexact_array(new) or isinstance(new, float):
            mean = tau * new + (1 - tau) * old
            if not eqx.is_array(old):
                return mean
            ends = jnp.select([jnp.asarray(tau) == 0, jnp.asarray(tau) == 1], [old, new], mean)  # which hold for NaN, too
            return ends.astype(old.dtype)
        if not eqx.is_array(new):
            return new
        is_key = jnp.issubdtype(new.dtype, jax.dtypes.prng_key)
        return old if is_key else jnp.where(jnp.asarray(tau) > 0, new, old)

    return jax.tree.map(step, target, source)


def _check_alike(target: PyTree, source: PyTree) -> None:
    """Raise unless both have the same structure and their arrays the same shapes; the message names the first leaf that differs."""
    old, new = ({jax.tree_util.keystr(path): x for path, x in jax.tree_util.tree_leaves_with_path(tree)} for tree in (target, source))
    for name in [*old, *new]:
        if name not in old or name not in new:
            has, lacks = ("target", "source") if name in old else ("source", "target")
            raise ShapeError(f"polyak: {has} has a leaf {name}, which {lacks} has not. {ALIKE}")
        shapes = [x[name].shape if isinstance(x[name], jax.Array | np.ndarray) else () for x in (old, new)]
        if shapes[0] != shapes[1]:
            raise ShapeError(f"polyak: target{name} has shape {shapes[0]} and source{name} {shapes[1]}. {ALIKE}")
    if jax.tree.structure(target) != jax.tree.structure(source):
        raise ShapeError(f"polyak: target and source have the same leaves, but differ in a class or a static field. {ALIKE}")
