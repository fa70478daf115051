"""How near the choice of a policy is to the wanted one, head by head."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree


def closeness(share: str, chosen: PyTree, wanted: PyTree) -> dict[str, Float[Array, ""]]:
    """Metrics of N actions: the share in which every choice is the wanted one, and the mean squared error of the continuous numbers.

    They are `train/{share}` and `train/mse`. With several heads, or several continuous parts, each also has one of its own, named after its
    place in the action: `train/{share}/move/0`.
    """
    matches, errors = {}, {}
    pairs = zip(jax.tree_util.tree_leaves_with_path(chosen), jax.tree.leaves(wanted), strict=True)
    for (path, x), y in pairs:
        part = jax.tree_util.keystr(path, simple=True, separator="/")
        if jnp.issubdtype(x.dtype, jnp.integer):
            for head in np.ndindex(x.shape[1:]):
                matches["/".join(filter(None, (part, *map(str, head))))] = (x == y)[(..., *head)]
        else:
            errors[part] = jnp.square(x - y).reshape(len(x), -1)
    metrics = {}
    if matches:
        metrics[f"train/{share}"] = jnp.stack(list(matches.values())).all(0).mean()
    if errors:
        metrics["train/mse"] = jnp.concatenate(list(errors.values()), 1).mean()
    for name, parts in ((share, matches), ("mse", errors)):
        metrics |= {f"train/{name}/{part}": x.mean() for part, x in parts.items() if len(parts) > 1}
    return metrics
