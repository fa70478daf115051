"""What may go wrong with a bundle."""

from rl4jax.core.errors import Rl4JaxError


class BundleError(Rl4JaxError):
    """A folder that is no bundle, or no longer the one that was written."""


class ExportError(Rl4JaxError):
    """A policy that cannot leave JAX, or that does something else outside."""
