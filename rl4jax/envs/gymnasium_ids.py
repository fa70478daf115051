"""The built-in environments as `rl4jax/<Name>-v0` in Gymnasium's registry. Imports no JAX until one is made."""

from typing import Any

import gymnasium

from .registry import BUILT_IN, make


def register_with_gymnasium() -> None:
    """Called when rl4jax is imported, so that `gymnasium.make("rl4jax/CartPole-v0")` works."""
    for name in BUILT_IN:
        if (id := f"rl4jax/{name}-v0") not in gymnasium.registry:
            gymnasium.register(id, entry_point="rl4jax.envs.gymnasium_ids:make_gymnasium", kwargs={"name": name})


def make_gymnasium(name: str, render_mode: str | None = None, **fields: Any) -> gymnasium.Env:
    from rl4jax.core.gym_export import to_gymnasium

    return to_gymnasium(make(name, **fields), render_mode)
