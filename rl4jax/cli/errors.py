"""How a command fails."""

from rl4jax.core.errors import Rl4JaxError


class RunFailed(Rl4JaxError):
    """A run that began could not go on: exit code 1. Everything else that is raised on purpose is bad input: exit code 2."""
