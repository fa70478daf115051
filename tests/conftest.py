"""Every test runs with key reuse checked and a shared compilation cache."""

import rl4jax  # noqa: F401  (before jax: it makes CPU runs safe)
import jax
import pytest

jax.config.update("jax_debug_key_reuse", True)


@pytest.fixture
def getkey():
    """A function that hands out fresh keys."""
    key = jax.random.key(0)

    def next_key():
        nonlocal key
        key, fresh = jax.random.split(key)
        return fresh

    return next_key
