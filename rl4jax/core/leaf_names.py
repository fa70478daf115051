"""The leaves of a tree by name."""

from typing import Any

import jax


def leaves_by_name(tree: Any) -> tuple[dict[str, Any], Any]:
    """The leaves of any pytree, named by the way to them as in `layers.0.weight`, and its structure.

    >>> leaves_by_name({"actor": [1, 2]})[0]
    {'actor.0': 1, 'actor.1': 2}
    """
    pairs, treedef = jax.tree_util.tree_flatten_with_path(tree)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in pairs]
    if len(set(names)) < len(names):  # a dict may have a key with a dot
        names = [jax.tree_util.keystr(path) for path, _ in pairs]
    return dict(zip(names, (leaf for _, leaf in pairs), strict=True)), treedef
