"""The algorithms of the command line: what it must know of each besides its module."""

import dataclasses
import functools
import importlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from . import presets
from .networks import ActorCriticOptions, FeedForwardOptions, QNetworkOptions, WorldModelOptions
from .options import CommandFlags, ImitationOptions, Options, ReplayOptions, TrainFlags, TrainingOptions


@dataclasses.dataclass(frozen=True, eq=False)
class Algorithm:
    """One algorithm. Its settings are the fields of `options`, `network` and the module's `Config`."""

    name: str  # of its module in rl4jax.algo, and in config.json
    title: str
    options: type[Options]
    network: type
    about: str  # for --help
    presets: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)  # by environment
    in_steps: tuple[str, ...] = ()  # rates that count environment steps; the others count updates
    in_gradient_steps: tuple[str, ...] = ()  # or gradient steps, where they are not as many as updates

    @functools.cached_property
    def module(self) -> Any:
        """With JAX behind it: not for a mere --help."""
        return importlib.import_module(f"rl4jax.algo.{self.name}")

    @property
    def imitates(self) -> bool:
        """Whether it learns from the runs of others instead of by playing."""
        return issubclass(self.options, ImitationOptions)

    @property
    def command(self) -> str:
        return self.name if self.imitates else f"train {self.name}"

    @property
    def flags(self) -> type[CommandFlags]:
        return CommandFlags if self.imitates else TrainFlags

    @property
    def positional(self) -> Literal["env", "teachers"]:
        """The setting that is typed without its name."""
        return "teachers" if self.imitates else "env"

    @property
    def unit(self) -> Literal["steps", "epochs"]:
        """What its runs count."""
        return "epochs" if self.imitates else "steps"

    @property
    def curve(self) -> str:
        """The metric that shows how a run went."""
        return "train/loss" if self.imitates else "rollout/avg_return"


TRAINED = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("ppo", "PPO", TrainingOptions, ActorCriticOptions, "Train an agent with PPO.", presets.PPO),
        Algorithm("dqn", "DQN", ReplayOptions, QNetworkOptions, "Train an agent with DQN.", presets.DQN, in_steps=("epsilon",)),
        Algorithm("impala", "IMPALA", TrainingOptions, ActorCriticOptions, "Train an agent with IMPALA.", presets.IMPALA),
        Algorithm(
            "dreamer", "Dreamer", ReplayOptions, WorldModelOptions, "Train an agent with DreamerV3.", presets.DREAMER,
            in_gradient_steps=("lr", "entropy_coef"),
        ),
    )
}  # fmt: skip
IMITATING = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("bc", "BC", ImitationOptions, FeedForwardOptions, "Clone the agent of a run: play it, and learn to do as it did."),
        Algorithm(
            "distill", "Distillation", ImitationOptions, FeedForwardOptions,
            "Distill the agents of one or several runs into one: play them, and learn to choose as they do, also among second choices.",
        ),
    )
}  # fmt: skip
ALGORITHMS = TRAINED | IMITATING


def built_in_twin(env: str) -> str:
    """The name that a built-in environment like this one of Gymnasium would have: presets are found by it.

    >>> built_in_twin("gym:CartPole-v1"), built_in_twin("gym:rl4jax/CartPole-v0"), built_in_twin("my_game:Maze")
    ('CartPole', 'CartPole', '')
    """
    found = re.fullmatch(r"gym:(?:rl4jax/)?(\w+)-v\d+", env)
    return found[1] if found else ""


def hint_at_twin(env: str, algorithms: Iterable[Algorithm]) -> str:
    """For an environment without a preset: that its built-in twin has one, if so, for one of these algorithms."""
    twin = built_in_twin(env)
    return f" ({twin}, built in, has one.)" if any(twin in algorithm.presets for algorithm in algorithms) else ""
