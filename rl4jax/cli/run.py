"""A run: what `config.json` in its folder says, as environment, settings and states. The one place that rebuilds it."""

import dataclasses
import functools
import os
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from rl4jax.algo import ppo
from rl4jax.algo.minibatch import check_minibatches
from rl4jax.collect.playing import AnyVecEnv, begin
from rl4jax.core.checkpoint import read_metadata
from rl4jax.core.errors import CheckpointError, ConfigError, require
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.run_dir import RunDir
from rl4jax.core.schedule import Linear
from rl4jax.nn.actor_critic import ActorCritic

from .environment import make_env
from .options import Options
from .settings import Rate, Settings, checked, defaults

ALGORITHM = "ppo"


@dataclasses.dataclass(frozen=True)
class Run:
    """The folder of a run and what it runs. Nothing here changes as it goes on: that is `ppo.State`."""

    directory: RunDir
    options: Options
    cfg: ppo.Config
    env: AnyVecEnv

    @property
    def path(self) -> Path:
        return self.directory.path

    def moved_to(self, path: Path) -> "Run":
        """The same run in another folder."""
        return dataclasses.replace(self, directory=RunDir(path, keep=self.options.keep))

    @property
    def steps_per_update(self) -> int:
        return self.cfg.num_steps * self.options.num_envs

    @property
    def num_updates(self) -> int:
        return self.options.total_steps // self.steps_per_update

    @property
    def last_step(self) -> int:
        """Environment steps of the whole run: the whole rollouts that fit into `total_steps`."""
        return self.num_updates * self.steps_per_update

    @property
    def log_every(self) -> int:
        return self.options.log_every or -(-self.num_updates // 200)

    @property
    def checkpoint_every(self) -> int:
        return self.options.checkpoint_every or -(-self.num_updates // 10)

    @property
    def on_host(self) -> bool:
        return isinstance(self.env, GymVecEnv)

    def key(self, purpose: Literal["model", "init", "eval", "begin", "picture"], step: int = 0) -> jax.Array:
        """The randomness of one thing at one step: a matter of the seed alone."""
        purposes = ("model", "init", "eval", "begin", "picture")
        return jax.random.fold_in(jax.random.split(jax.random.key(self.options.seed), len(purposes))[purposes.index(purpose)], step)

    def make_model(self) -> ActorCritic:
        o = self.options
        core = None if o.core == "none" else o.core
        network = {"hidden": o.hidden, "activation": o.activation, "shared": o.shared, "log_std": o.log_std, "squash": o.squash}
        return ActorCritic(self.env, key=self.key("model"), core=core, **network)

    def fresh(self) -> ppo.State:
        """The state before the first update."""
        return ppo.init(self.make_model(), self.env, self.cfg, key=self.key("init"))

    @functools.cached_property
    def like(self) -> ppo.State:
        """What a checkpoint must look like. A host environment cannot be traced: there it is a real state."""
        return self.fresh() if self.on_host else jax.eval_shape(self.fresh)

    def load(self, which: str = "latest") -> tuple[int, ppo.State] | None:
        """A checkpoint and its step, if there is one. The episodes of host environments begin anew: they cannot be stored."""
        require(which in ("latest", "best"), "which", which, "'latest' or 'best'")
        found = self.directory.latest(self.like) if which == "latest" else self.directory.best(self.like)
        if found is None or not self.on_host:
            return found
        step, state = found
        scale = state.reward_scale
        fresh_scale = scale and scale._replace(discounted_return=jnp.zeros_like(scale.discounted_return))
        return step, state._replace(playing=begin(state.model, self.env, key=self.key("begin", step)), reward_scale=fresh_scale)

    def need(self, which: str = "latest") -> tuple[int, ppo.State]:
        """`load`, where there must be one."""
        found = self.load(which)
        if found is None:
            advice = "It is written by evaluations." if which == "best" else f"Go on with: rl4jax resume {self.path}"
            raise CheckpointError(f"{self.path} has no {which} checkpoint yet. {advice}")
        return found

    def metadata(self, step: int) -> dict:
        """What was stored with the checkpoint of a step."""
        return read_metadata(self.directory.step_path(step))


def build_run(settings: Settings, path: str | os.PathLike[str]) -> Run:
    """A run from its settings; the folder is not touched."""
    options = Options(**{field.name: settings[field.name] for field in dataclasses.fields(Options)})
    for name in ("total_steps", "num_envs", "keep", "eval_episodes"):
        require(getattr(options, name) > 0, f"--{name.replace('_', '-')}", getattr(options, name), "a positive integer")
    for name in ("log_every", "checkpoint_every"):
        require((getattr(options, name) or 1) > 0, f"--{name.replace('_', '-')}", getattr(options, name), "a positive integer, or none")
    require(options.eval_every >= 0, "--eval-every", options.eval_every, "zero (only at the end) or a positive integer")
    require(0 <= options.seed < 2**32, "--seed", options.seed, "a whole number from 0 to 2**32 - 1")
    own = {field.name: settings[field.name] for field in dataclasses.fields(ppo.Config)}
    batch = int(own["num_steps"]) * options.num_envs
    num_updates = options.total_steps // max(batch, 1)
    cfg = ppo.Config(**{name: _setting(value, max(num_updates, 1)) for name, value in own.items()})
    if not num_updates:
        raise ConfigError(f"--total-steps {options.total_steps} is less than one rollout: num_steps * num_envs = {batch}.")
    check_minibatches(cfg.num_steps, options.num_envs, cfg.num_minibatches, recurrent=options.core != "none")
    run = Run(RunDir(path, keep=options.keep), options, cfg, make_env(options.env, options.num_envs))
    eqx.filter_eval_shape(run.make_model)  # a network that cannot be built should say so now
    return run


def load_run(path: str | os.PathLike[str]) -> Run:
    """The run that `rl4jax train` left in a folder."""
    return build_run(stored_settings(path), path)


def stored_settings(path: str | os.PathLike[str]) -> Settings:
    """What `config.json` in the folder of a run says."""
    if not (Path(path) / "config.json").is_file():
        if Path(path).is_file():
            raise CheckpointError(f"{path} is a file, not the folder of a run. Weights alone are read by rl.load(path, like=model).")
        what = "has no config.json, so it is not the folder of a run" if Path(path).is_dir() else "does not exist"
        raise CheckpointError(f"{path} {what}. Give the folder that `rl4jax train` wrote, such as runs/ppo-CartPole-20250101-120000.")
    stored = RunDir(path).read_json("config.json")
    if not isinstance(stored, dict) or stored.pop("algorithm", None) != ALGORITHM:
        raise CheckpointError(f"{path}/config.json is not of a run of {ALGORITHM}.")
    return defaults() | checked(stored, f"{path}/config.json")


def all_settings(run: Run, settings: Settings) -> Settings:
    """The settings with the choices that the run made itself: what to store."""
    return settings | dataclasses.asdict(run.options) | {"log_every": run.log_every, "checkpoint_every": run.checkpoint_every}


def _setting(value: Any, num_updates: int) -> Any:
    """A value for `ppo.Config`: `linear(START, END)` becomes a schedule over the run."""
    match = Rate.pattern.fullmatch(value) if isinstance(value, str) else None
    return Linear(float(match[1]), float(match[2]), float(num_updates)) if match else value
