"""What a run is told besides its network and the settings of its algorithm. The comments are the texts of `--help`."""

import dataclasses
from typing import Literal

from rl4jax.core.errors import require


@dataclasses.dataclass(frozen=True)
class Options:
    """What every run is told; stored with it."""

    env: str = ""  # a built-in such as CartPole or Catch,rows=16, in-graph (see `rl4jax envs`), gym:ID on the host, or a module:Class
    num_envs: int = 4  # environments side by side
    seed: int = 0  # of everything that is random
    eval_episodes: int = 100  # episodes of an evaluation
    on_nonfinite: Literal["stop", "skip"] = "stop"  # at a loss or gradient that is not finite: stop, or learn nothing from that batch
    tensorboard: bool = False  # also write event files for TensorBoard


@dataclasses.dataclass(frozen=True)
class TrainingOptions(Options):
    """Length and housekeeping of a run that learns by playing."""

    total_steps: int = 500_000  # environment steps of the whole run, over all environments, rounded down to whole turns
    log_every: int | None = None  # updates between two points of the log; none: so that there are about 200
    checkpoint_every: int | None = None  # updates between two checkpoints; none: so that there are about 10
    keep: int = 3  # newest checkpoints to keep
    eval_every: int = 0  # updates between two evaluations; 0: only at the end


@dataclasses.dataclass(frozen=True)
class ReplayOptions(TrainingOptions):
    """The same for an algorithm that makes many small updates from a memory."""

    updates_per_turn: int | None = None  # updates between two looks at clock, log and Ctrl-C; none: as long as 1000 steps, on the host 100
    disk_replay: bool = False  # host environments: keep the memory in the folder of the run instead of in RAM


@dataclasses.dataclass(frozen=True)
class ImitationOptions(Options):
    """Teachers and length of a run that learns from what others do."""

    teachers: tuple[str, ...] = ()  # the folder of a run whose agent is learned from
    which: Literal["latest", "best"] = "latest"  # the teacher's newest checkpoint, or the best by evaluation
    num_steps: int = 10_000  # environment steps that each teacher plays, over all environments
    sample: bool = False  # the teacher draws its actions instead of taking the most likely ones
    epochs: int = 20  # passes over what was played


@dataclasses.dataclass(frozen=True)
class CommandFlags:
    """Options of the command, not of the run: what to do, and how to speak."""

    out: str = ""  # the folder of the run; by default runs/<algorithm>-<env>-<time>
    config: str = ""  # a TOML file of settings, such as the config.toml of another run; flags win over it
    json: bool = False  # print one line of JSON with the result to stdout, everything else to stderr
    quiet: bool = False  # no progress


@dataclasses.dataclass(frozen=True)
class TrainFlags(CommandFlags):
    """The same for `rl4jax train`."""

    preset: bool = True  # begin with the settings that are known to learn in this environment, if there are any


def flag_of(name: str) -> str:
    """How a setting is typed."""
    return f"--{name.replace('_', '-')}"


def check_options(options: Options, *counts: str) -> None:
    """Raise unless these are positive integers, and the seed is one."""
    for name in counts:
        require(getattr(options, name) > 0, flag_of(name), getattr(options, name), "a positive integer")
    require(0 <= options.seed < 2**32, "--seed", options.seed, "a whole number from 0 to 2**32 - 1")
