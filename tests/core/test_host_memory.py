"""Freed memory is kept, where the C library can be told so."""

import os
import platform
import subprocess
import sys

import pytest

PAGES = """
import resource
import numpy as np
from rl4jax.core.host_memory import keep_freed_memory
print(keep_freed_memory())
np.ones(12_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    np.ones(12_000_000)  # 96 MB
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.parametrize(("environment", "kept"), [({}, True), ({"MALLOC_ARENA_MAX": "2"}, False)])
def test_freed_memory_is_kept_unless_the_environment_says_how(environment, kept):
    kept = kept and platform.libc_ver()[0] == "glibc"
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    done = subprocess.run([sys.executable, "-c", PAGES], env=plain | environment, capture_output=True, text=True, timeout=60, check=True)
    said, faults = done.stdout.split()
    assert said == str(kept)
    if kept:
        assert int(faults) < 1000  # five times 96 MB would be 117,000 pages of 4 kB
