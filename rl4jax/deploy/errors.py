"""What may go wrong with a bundle."""

from rl4jax.core.errors import Rl4JaxError


class BundleError(Rl4JaxError):
    """A folder that is no bundle, or no longer the one that was written."""


class ExportError(Rl4JaxError):
    """A policy that cannot leave JAX, or that does something else outside."""


def printable(error: Exception) -> str:
    r"""What it says, without signs that a terminal obeys: names out of a stranger's program may be in it.

    >>> printable(ValueError("no input \x1b[2J"))
    'no input \\x1b[2J'
    """
    return "".join(sign if sign.isprintable() or sign == "\n" else f"\\x{ord(sign):02x}" for sign in str(error))
