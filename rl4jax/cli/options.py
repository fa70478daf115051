"""What a run is told besides the settings of its algorithm. The comments are the texts of `--help`."""

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class Options:
    """Environment, length, network and housekeeping of a run; stored with it."""

    env: str = ""  # a built-in such as CartPole, which runs in-graph (see `rl4jax envs`), gym:ID on the host, or your own module:Class
    total_steps: int = 500_000  # environment steps of the whole run, over all environments, rounded down to whole rollouts
    num_envs: int = 4  # environments side by side
    seed: int = 0  # of everything that is random
    hidden: tuple[int, ...] = (64, 64)  # sizes of the layers of the network
    activation: str = "tanh"  # elu, gelu, relu, silu or tanh
    shared: bool = False  # one trunk for policy and value
    core: Literal["none", "lstm", "gru"] = "none"  # a memory after the last layer
    log_std: Literal["parameter", "model"] = "parameter"  # continuous actions: one spread for all states, or one that the model computes
    squash: bool = False  # continuous actions: keep them inside their box by tanh instead of by clipping
    log_every: int | None = None  # updates between two points of the log; none: so that there are about 200
    checkpoint_every: int | None = None  # updates between two checkpoints; none: so that there are about 10
    keep: int = 3  # newest checkpoints to keep
    eval_every: int = 0  # updates between two evaluations; 0: only at the end
    eval_episodes: int = 100  # episodes of an evaluation
    on_nonfinite: Literal["stop", "skip"] = "stop"  # at a loss or gradient that is not finite: stop, or learn nothing from that rollout
    tensorboard: bool = False  # also write event files for TensorBoard


@dataclasses.dataclass(frozen=True)
class TrainFlags(Options):
    """Options of the command, not of the run: what to do, and how to speak."""

    out: str = ""  # the folder of the run; by default runs/ppo-<env>-<time>
    config: str = ""  # a TOML file of settings, such as the config.toml of another run; flags win over it
    preset: bool = True  # begin with the settings that are known to learn in this environment, if there are any
    json: bool = False  # print one line of JSON with the result to stdout, everything else to stderr
    quiet: bool = False  # no progress
