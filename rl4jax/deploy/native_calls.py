"""What a program of StableHLO calls outside of itself."""

import re

from jax import export

CALLS = {"shape_assertion"}  # of native functions, in what we export: that all inputs have one batch size


def native_calls(exported: export.Exported) -> list[str]:
    """The functions outside of the program that it calls, but for those of ours: some run Python, or whatever is at an address."""
    found = re.findall(r'custom_call\s*@?("[^"]*"|[\w.$-]*)', exported.mlir_module())
    return sorted(set(found) - CALLS)
