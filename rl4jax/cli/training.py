"""A run that learns by playing: PPO, DQN, IMPALA, Dreamer. A turn is one update, or as many as make a compiled program worth its call."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rl4jax.algo import ppo
from rl4jax.collect.playing import begin, check_faults
from rl4jax.collect.rollout import Rollout
from rl4jax.core.errors import ConfigError, require
from rl4jax.core.host_memory import available_memory
from rl4jax.core.run_dir import RunDir

from .algorithms import Algorithm
from .environment import make_env
from .errors import RunFailed
from .nonfinite import explain
from .options import ReplayOptions, TrainingOptions, check_options, flag_of
from .progress import Progress
from .run import AbstractRun, Rhythm
from .settings import Settings, known, make_config, part
from .turn import SKIPPED, Turn, ended_by, ended_in

STEPS_PER_TURN = {True: 100, False: 1000}  # of many small updates, on the host and in-graph: at most about a second


@dataclasses.dataclass(frozen=True)
class Training(AbstractRun):
    """A run of `rl4jax train`."""

    options: TrainingOptions

    @property
    def about(self) -> str:
        num_envs = self.options.num_envs
        return f"{self.last_step:,} steps, {num_envs} environment{'s' * (num_envs > 1)}"

    @property
    def on_disk(self) -> bool:
        """Whether what it remembers is kept in its folder."""
        return isinstance(self.options, ReplayOptions) and self.options.disk_replay

    @property
    def steps_per_update(self) -> int:
        return self.cfg.num_steps * self.options.num_envs

    @property
    def updates_per_turn(self) -> int:
        """One, unless updates are many and small: those are taken as one compiled program."""
        if not isinstance(self.options, ReplayOptions):
            return 1
        most = min(STEPS_PER_TURN[self.on_host], self.options.total_steps)
        return self.options.updates_per_turn or max(most // self.cfg.work_of_update(self.options.num_envs), 1)

    @property
    def steps_per_turn(self) -> int:
        return self.updates_per_turn * self.steps_per_update

    @property
    def num_turns(self) -> int:
        """The whole turns that fit into `total_steps`."""
        return self.options.total_steps // self.steps_per_turn

    @property
    def num_updates(self) -> int:
        return self.num_turns * self.updates_per_turn

    @property
    def choices(self) -> Settings:
        chosen = {
            "log_every": self.options.log_every or -(-self.num_updates // 200),
            "checkpoint_every": self.options.checkpoint_every or -(-self.num_updates // 10),
        }
        return chosen | ({"updates_per_turn": self.updates_per_turn} if isinstance(self.options, ReplayOptions) else {})

    @property
    def rhythm(self) -> Rhythm:
        updates = (self.choices["log_every"], self.options.eval_every, self.choices["checkpoint_every"])
        return Rhythm(*(-(-every // self.updates_per_turn) for every in updates))  # rounded up to whole turns

    def fresh(self) -> Any:
        model = self.make_model()
        module = self.algorithm.module
        ring = {"replay": module.replay_on_disk(self.path / "replay", model, self.env, self.cfg)} if self.on_disk else {}
        return module.init(model, self.env, self.cfg, key=self.key("init"), **ring)

    def try_out(self) -> None:
        if self.on_disk:  # whose folder is not there yet
            eqx.filter_eval_shape(self.make_model)
        elif self.on_host or jax.default_backend() != "cpu":
            _ = self.like
        else:
            check_memory(self)

    @functools.cached_property
    def like(self) -> Any:
        """A host environment cannot be traced: there it is a real state."""
        return self.fresh() if self.on_host else jax.eval_shape(self.fresh)

    def revive(self, step: int, state: Any) -> Any:
        """The episodes of host environments begin anew: they cannot be stored."""
        if not self.on_host:
            return state
        if isinstance(state, ppo.State) and state.reward_scale is not None:
            scale = state.reward_scale
            state = state._replace(reward_scale=scale._replace(discounted_return=jnp.zeros_like(scale.discounted_return)))
        return state._replace(playing=begin(state.model, self.env, key=self.key("begin", step)))

    @property
    def _remembers_on_host(self) -> bool:
        return self.on_host and isinstance(self.options, ReplayOptions)

    @contextlib.contextmanager
    def storing(self, state: Any) -> Iterator[None]:
        if not self._remembers_on_host:
            yield
            return
        with state.replay.checkpointed():  # raises if the memory has gone on without this state
            yield

    def learn(self, state: Any, step: int, progress: Progress, *, first: bool) -> tuple[Any, Turn]:
        if self.updates_per_turn == 1:
            state, rollout, updates = self._update_once(state, progress, first)
            turn = Turn(updates, *ended_in(rollout))
        else:
            with progress.waiting("compiling", shown=first):
                state, metrics = self.algorithm.module.train(state, self.env, self.cfg, self.updates_per_turn)
                updates, rollout = jax.device_get(metrics), None
            turn = Turn(updates, *ended_by(updates))
        if turn.skipped and self.options.on_nonfinite == "stop":
            # What was skipped has changed no weight, so the state after it is as good.
            raise RunFailed(self._trouble(step, turn, rollout), state if self._remembers_on_host else None)
        check_faults(state.playing.faults, self.env)
        return state, turn

    def _update_once(self, state: Any, progress: Progress, first: bool) -> tuple[Any, Rollout, dict[str, np.ndarray]]:
        module = self.algorithm.module
        with progress.waiting("compiling collect", shown=first):
            state, rollout = module.collect(state, self.env, self.cfg)
            if first:
                jax.block_until_ready(rollout)
        with progress.waiting("compiling update", shown=first):
            state, metrics = module.update(state, rollout, self.cfg)
            return state, rollout, {name: x[None] for name, x in jax.device_get(metrics).items()}

    def _trouble(self, step: int, turn: Turn, rollout: Rollout | None) -> str:
        first = int(np.flatnonzero(turn.updates[SKIPPED])[0])
        why = explain({name: x[first] for name, x in turn.updates.items()}, rollout, known(self.algorithm))
        return f"The update after step {step + first * self.steps_per_update} learned nothing. {why} Or go on: --on-nonfinite skip."

    def status(self, turn: Turn, recent: Sequence[float]) -> str:
        return f"return {sum(recent) / len(recent):.4g}" if recent else "no episode yet"


def build_training(algorithm: Algorithm, settings: Settings, path: str | os.PathLike[str]) -> Training:
    """A run from its settings; the folder is not touched."""
    options = part(algorithm.options, settings)
    check_options(options, "total_steps", "num_envs", "keep", "eval_episodes")
    for name in ("log_every", "checkpoint_every", "updates_per_turn"):
        value = settings.get(name)
        require(value is None or value > 0, flag_of(name), value, "a positive integer, or none")
    require(options.eval_every >= 0, "--eval-every", options.eval_every, "zero (only at the end) or a positive integer")
    draft = make_config(algorithm, settings, num_updates=1, num_steps=1)
    env = make_env(options.env, options.num_envs)
    run = Training(RunDir(path, keep=options.keep), algorithm, options, part(algorithm.network, settings), draft, env)
    if run.on_disk and not run.on_host:
        raise ConfigError(f"--disk-replay is for environments on the host, gym:ID. What is remembered of {options.env} is on the device.")
    check_learns(run, settings)
    return dataclasses.replace(run, cfg=make_config(algorithm, settings, num_updates=run.num_updates, num_steps=run.last_step))


def check_memory(run: Training) -> None:
    """Raise if this machine has not the memory for the run: a turn makes the next state beside the last."""
    needed = 2 * sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(run.like))
    free = available_memory()
    if free is not None and needed > free:
        fix = "Most of it is what is remembered: give a smaller --capacity." if isinstance(run.options, ReplayOptions) else ""
        what = f"{needed / 1e9:.1f} GB of memory, the state twice during a turn, and {free / 1e9:.1f} GB are free here"
        raise ConfigError(f"{run.title} takes {what}. {fix}")


def check_learns(run: Training, settings: Settings) -> None:
    """Raise if nothing would be learned."""
    if not run.num_turns:
        what = "one rollout: num_steps * num_envs" if run.updates_per_turn == 1 else "one turn: updates_per_turn * num_steps * num_envs"
        raise ConfigError(f"--total-steps {run.options.total_steps} is less than {what} = {run.steps_per_turn}.")
    starts, every = settings.get("learning_starts", 0), settings.get("target_every", 1)
    whole = f"at most {run.last_step}, the steps of the whole run" + f": --total-steps in whole turns of {run.steps_per_turn}"
    require(starts <= run.last_step, "--learning-starts", starts, whole)
    require(every > 0, "--target-every", every, "a positive integer", "Nobody else would move the target network.")
