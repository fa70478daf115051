"""`rl4jax serve DIR`."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Annotated

import tyro

from ..flags import parse

TOKEN = "RL4JAX_TOKEN"


@dataclasses.dataclass(frozen=True)
class ServeFlags:
    folder: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DIR")]
    """What `rl4jax export RUN --out DIR` wrote."""
    host: str = "127.0.0.1"
    """Where to listen: this machine only; 0.0.0.0 for all that can reach it."""
    port: int = 8080
    """0 for any that is free."""
    token: str | None = None
    """What clients must send as `Authorization: Bearer TOKEN`; better set RL4JAX_TOKEN, which no list of processes shows."""
    max_body: int = 1 << 20
    """The most bytes of a request."""
    max_batch: int = 256
    """The most observations of a request."""


def command(argv: Sequence[str]) -> int:
    flags = parse(ServeFlags, argv, command="serve", description="Answer over HTTP with an exported policy. Needs no JAX.")

    from rl4jax.core.errors import require
    from rl4jax.deploy.server import serve

    token = os.environ.get(TOKEN) if flags.token is None else flags.token
    require(token != "", "--token" if flags.token == "" else TOKEN, "", "a secret, or not set at all")
    serve(flags.folder, host=flags.host, port=flags.port, token=token, max_body=flags.max_body, max_batch=flags.max_batch)
    return 0
