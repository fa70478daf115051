"""Every test runs with JAX's check for reused keys and with the settings of `rl.setup`, compilation cache included."""

import gc
import itertools
import pathlib

import rl4jax as rl  # before jax: importing it makes CPU runs safe

rl.setup(cache_dir=pathlib.Path(__file__).parent.parent / ".jax_cache")

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_debug_key_reuse", True)


def pytest_configure(config):
    """The short tests compile more than they compute: XLA may do the former carelessly. Processes of their own, such as examples', do not."""
    if config.option.markexpr == "not slow":
        jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def getkey():
    """A function that hands out fresh keys."""
    key = jax.random.key(0)

    def next_key():
        nonlocal key
        key, fresh = jax.random.split(key)
        return fresh

    return next_key


MAPS = pathlib.Path("/proc/self/maps")
MOST_MAPS = 20_000  # Linux allows a process 65,530
tests_run = itertools.count(1)


@pytest.fixture(autouse=True)
def few_compiled_programs():
    """Let go of compiled programs before they are too many: each holds pieces of memory, and the process dies when there are no more."""
    yield
    if next(tests_run) % 10 == 0 and MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()
