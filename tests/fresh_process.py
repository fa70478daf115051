"""Run a program in a fresh interpreter, where no test has imported or configured anything."""

import os
import subprocess
import sys


def run(program, *args, env=None, timeout=120):
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS" and not name.startswith("JAX_")}
    return subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", program, *args],
        capture_output=True, text=True, timeout=timeout, env={**environment, **(env or {})},
    )  # fmt: skip
