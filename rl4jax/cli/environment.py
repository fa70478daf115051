"""An environment by the name that is typed: a built-in runs in-graph, `gym:ID` on the host, `module:Class` is your own.

Behind the name of a built-in its fields may follow: `Catch,rows=16,columns=16`.
"""

import difflib
import importlib
import inspect
import os
import sys
import warnings
from typing import TYPE_CHECKING

from rl4jax.core.errors import EnvError, did_you_mean
from rl4jax.deploy.env_names import GYM
from rl4jax.envs.registry import BUILT_IN, make, parse

if TYPE_CHECKING:
    import gymnasium

    from rl4jax.collect.playing import AnyVecEnv
    from rl4jax.core.env import AbstractEnv

HOST_EVAL_ENVS = 10  # at most: all wait for the last one to finish


def make_env(name: str, num_envs: int) -> "AnyVecEnv":
    """The vector environment to train in."""
    from rl4jax.core.gym_vec_env import GymVecEnv
    from rl4jax.core.vec_env import VecEnv

    if not name.startswith(GYM):
        return VecEnv(_in_graph(name), num_envs=num_envs)
    return _gymnasium(name, lambda: GymVecEnv(name.removeprefix(GYM), num_envs=num_envs))


def make_eval_env(name: str, num_episodes: int) -> "AnyVecEnv":
    """One to evaluate in, which plays exactly so many episodes: in-graph all at once, on the host a few at a time."""
    at_once = num_episodes
    if name.startswith(GYM):
        at_once = max(n for n in range(1, HOST_EVAL_ENVS + 1) if num_episodes % n == 0)
    return make_env(name, at_once)


def close(env: "AnyVecEnv") -> None:
    """Let go of a host environment. One that cannot be closed is no reason to lose what was done in it."""
    from rl4jax.core.gym_vec_env import GymVecEnv

    if isinstance(env, GymVecEnv):
        try:
            env.close()
        except Exception as error:
            warnings.warn(f"{env} cannot be closed: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=2)


def make_picture_env(name: str) -> "AbstractEnv | gymnasium.Env":
    """One to look at."""
    if not name.startswith(GYM):
        return _in_graph(name)
    import gymnasium

    return _gymnasium(name, lambda: gymnasium.make(name.removeprefix(GYM), render_mode="rgb_array"))


def _in_graph(name: str) -> "AbstractEnv":
    return _own(name) if ":" in name else _built_in(name)


def _own(name: str) -> "AbstractEnv":
    """An environment of the user. Errors of its own code are left as they are."""
    from rl4jax.core.env import AbstractEnv

    module, _, attribute = name.partition(":")
    look_here()
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (module, module.partition(".")[0]):
            raise
        raise EnvError(f"{name}: there is no module {module!r} in this folder ({os.getcwd()}) or among the installed ones.") from error
    except (TypeError, ValueError) as error:  # no name of a module
        raise EnvError(f"{name} is not module:Class, such as my_game:Maze for the class Maze of my_game.py.") from error
    make = getattr(found, attribute, None)
    if not callable(make):
        known = [other for other, value in vars(found).items() if isinstance(value, type) and issubclass(value, AbstractEnv)]
        raise EnvError(f"{name}: {module} has no class {attribute!r}. {did_you_mean(attribute, known)}")
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise EnvError(f"{name} cannot be made without arguments: {error}. Give defaults, or name a function that makes one.") from error
    env = make()
    if not isinstance(env, AbstractEnv):
        raise EnvError(f"{name} is no rl4jax AbstractEnv. One of Gymnasium is registered there and typed {GYM}{module}:ID.")
    return env


def look_here() -> None:
    """Let modules of this folder be imported, as `python -m` does."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def _built_in(typed: str) -> "AbstractEnv":
    name = typed.split(",")[0].strip()
    if name in BUILT_IN:
        return make(name, **parse(typed)[1])
    import gymnasium

    if name in gymnasium.registry:
        raise EnvError(f"There is no built-in environment {name!r}. Gymnasium has one: type {GYM}{name}.")
    raise EnvError(
        f"There is no environment {name!r}. {did_you_mean(name, BUILT_IN)} One of Gymnasium is {GYM}ID, one of yours module:Class."
    )


def _gymnasium(name: str, build):
    """What `build` makes, with Gymnasium's own errors as ours."""
    import gymnasium

    look_here()  # gym:module:ID
    try:
        return build()
    except gymnasium.error.UnregisteredEnv as error:
        near = difflib.get_close_matches(name.removeprefix(GYM), gymnasium.registry, n=5, cutoff=0.4)
        hint = extra_for(name) or (did_you_mean(name, [GYM + other for other in near]) if near else str(error))
        raise EnvError(f"There is no environment {name!r}. {hint}") from error
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        missing = isinstance(error, gymnasium.error.DependencyNotInstalled | ModuleNotFoundError)
        hint = f" {extra_for(str(error))}" if missing else ""
        raise EnvError(f"{name} cannot be made: {str(error).rstrip('.')}.{hint}".rstrip()) from error


EXTRAS = {"ALE": "atari", "MuJoCo": "mujoco", "mujoco": "mujoco", "Box2D": "box2d"}


def extra_for(words: str) -> str:
    """Which of ours brings what an environment needs, if one does."""
    extra = next((extra for word, extra in EXTRAS.items() if word in words), None)
    return f"It comes with an extra of rl4jax: pip install 'rl4jax[{extra}]'" if extra else ""
