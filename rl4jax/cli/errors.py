"""How a command fails."""

from typing import Any

from rl4jax.core.errors import Rl4JaxError


class RunFailed(Rl4JaxError):
    """A run that began could not go on: exit code 1. Everything else that is raised on purpose is bad input: exit code 2."""

    def __init__(self, message: str, state: Any = None):
        """`state` is to be saved if the last good one is gone: a memory on the host is written in place."""
        super().__init__(message)
        self.state = state
