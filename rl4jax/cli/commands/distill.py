"""`rl4jax distill RUN...`."""

from collections.abc import Sequence

from ..algorithms import IMITATING
from ..launch import launch


def command(argv: Sequence[str]) -> int:
    return launch(IMITATING["distill"], argv)
