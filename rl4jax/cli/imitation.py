"""A run that learns from what other runs do: behavioral cloning and distillation. A turn is an epoch."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import Any

import jax

from rl4jax.algo import distill, epochs
from rl4jax.core.errors import ConfigError
from rl4jax.core.run_dir import RunDir

from .algorithms import Algorithm
from .environment import make_env
from .errors import RunFailed
from .options import ImitationOptions, check_options
from .progress import Progress
from .run import AbstractRun, Rhythm
from .settings import Settings, make_config, part
from .teachers import load_teachers, play
from .turn import Turn


@dataclasses.dataclass(frozen=True)
class Imitation(AbstractRun):
    """A run of `rl4jax bc` or `rl4jax distill`."""

    options: ImitationOptions

    @property
    def about(self) -> str:
        each = "each of " * (len(self.options.teachers) > 1)
        return f"{self.last_step} epochs over {self.options.num_steps:,} steps of {each}{', '.join(self.options.teachers)}"

    @property
    def steps_per_turn(self) -> int:
        return 1

    @property
    def num_turns(self) -> int:
        return self.options.epochs

    @property
    def rhythm(self) -> Rhythm:
        return Rhythm(log=1, evaluate=0, checkpoint=-(-self.options.epochs // 10))

    @property
    def choices(self) -> Settings:
        return {"env": self.options.env}

    @functools.cached_property
    def examples(self) -> Any:
        """What the teachers saw and did, played anew: the same each time, as long as they are."""
        teachers = load_teachers(self.options.teachers, self.env)
        lessons = [play(teacher, self.options, key=self.key("begin", i)) for i, teacher in enumerate(teachers)]
        if self.algorithm.name == "bc":
            return lessons[0].demonstrations
        return distill.merge([distill.label(one.policy, one.demonstrations.obs, one.demonstrations.mask) for one in lessons])

    def fresh(self) -> Any:
        return self.algorithm.module.init(self.make_model(), self.examples, self.cfg, key=self.key("init"))

    def try_out(self) -> None:
        self.fresh()

    @functools.cached_property
    def like(self) -> Any:
        """Known without the examples: the teachers may be gone."""
        return jax.eval_shape(lambda: epochs.begin("load", self.make_model(), self.cfg, key=self.key("init"), opt=None))

    def revive(self, step: int, state: Any) -> Any:
        return state

    def storing(self, state: Any) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def learn(self, state: Any, step: int, progress: Progress, *, first: bool) -> tuple[Any, Turn]:
        with progress.waiting("compiling", shown=first):
            state, metrics = self.algorithm.module.train(state, self.examples, self.cfg, 1)
            turn = Turn(jax.device_get(metrics))
        if turn.skipped and self.options.on_nonfinite == "stop":
            advice = "Try a smaller --lr or --max-grad-norm 0.5. Or go on: --on-nonfinite skip."
            raise RunFailed(f"{turn.skipped} gradient steps of epoch {step + 1} had losses or gradients that are not finite. {advice}")
        return state, turn

    def status(self, turn: Turn, recent: Sequence[float]) -> str:
        return f"loss {turn.updates['train/loss'][-1]:.4g}"


def build_imitation(algorithm: Algorithm, settings: Settings, path: str | os.PathLike[str]) -> Imitation:
    """A run from its settings; the folder is not touched. Its environment, unless known, is that of its first teacher."""
    from .build import stored_settings

    options: ImitationOptions = part(algorithm.options, settings)
    check_options(options, "num_envs", "eval_episodes", "num_steps", "epochs")
    if len(options.teachers) < 1:
        raise ConfigError(f"rl4jax {algorithm.command}: no run is given. Type: rl4jax {algorithm.command} runs/ppo-CartPole-...")
    if algorithm.name == "bc" and len(options.teachers) > 1:
        raise ConfigError(f"rl4jax bc learns from one run, not from {len(options.teachers)}. For several: rl4jax distill RUN RUN ...")
    env_name = options.env or stored_settings(options.teachers[0])[1]["env"]
    options = dataclasses.replace(options, env=env_name)
    num_steps = num_gradient_steps(options, settings["batch_size"], settings["holdout"])
    cfg = make_config(algorithm, settings, num_updates=num_steps, num_steps=num_steps)
    env = make_env(env_name, options.num_envs)
    return Imitation(RunDir(path), algorithm, options, part(algorithm.network, settings), cfg, env)


def num_gradient_steps(options: ImitationOptions, batch_size: int, holdout: float) -> int:
    """Of the whole run: what its learning rate counts."""
    examples = -(-options.num_steps // options.num_envs) * options.num_envs * len(options.teachers)
    learned = examples - epochs.num_held_out(examples, holdout)
    return options.epochs * -(-learned // max(batch_size, 1))
