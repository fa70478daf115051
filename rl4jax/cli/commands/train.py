"""`rl4jax train ALGORITHM ENV`."""

from collections.abc import Sequence

from rl4jax.core.errors import ConfigError, did_you_mean

from ..algorithms import IMITATING, TRAINED
from ..launch import launch


def command(argv: Sequence[str]) -> int:
    name = argv[0] if argv else ""
    if name in TRAINED:
        return launch(TRAINED[name], argv[1:])
    if name in ("-h", "--help"):
        print("usage: rl4jax train ALGORITHM ENV ...\n")
        print("\n".join(f"  {algorithm.name:<8}{algorithm.about}" for algorithm in TRAINED.values()))
        print("\n`rl4jax train ALGORITHM --help` lists every setting.")
        return 0
    if name in IMITATING:
        raise ConfigError(f"rl4jax train: {name} learns from other runs. Type: rl4jax {name} RUN")
    what = f"there is no algorithm {name!r}" if argv else "no algorithm is given"
    raise ConfigError(f"rl4jax train: {what}. {did_you_mean(name, TRAINED)} Type: rl4jax train ppo CartPole")
