"""Every test runs with JAX's check for reused keys and with the settings of `rl.setup`, compilation cache included."""

import pathlib

import rl4jax as rl  # before jax: importing it makes CPU runs safe

rl.setup(cache_dir=pathlib.Path(__file__).parent.parent / ".jax_cache")

import jax  # noqa: E402
import pytest  # noqa: E402

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
