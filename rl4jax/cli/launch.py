"""From the words of a command to a finished run, for every algorithm."""

import contextlib
import importlib.util
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rl4jax.core.errors import ConfigError, missing_extra

from .algorithms import Algorithm, hint_at_twin
from .flags import read_settings
from .main import say
from .output import hint, stdout_for_result

if TYPE_CHECKING:
    from .run import AbstractRun
    from .settings import Settings

LEAST_CAPACITY = 1_000  # steps of each environment: a stretch of any usual length fits


def start_jax() -> None:
    """Before anything is computed: the compilation cache, so that only the first run waits."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # it would greet on stdout
    import rl4jax

    rl4jax.setup()


def launch(algorithm: Algorithm, argv: Sequence[str]) -> int:
    """Begin a run as the flags say, and go through with it."""
    start_jax()
    from .build import build_run
    from .folder import begin_folder, default_folder, in_free_folder
    from .progress import Progress

    flags, settings = read_settings(algorithm, argv)
    if not algorithm.imitates and not settings["env"]:
        command = f"rl4jax {algorithm.command}"
        raise ConfigError(f"{command}: no environment is given. Type: {command} CartPole; `rl4jax envs` lists them.")
    if settings["tensorboard"] and importlib.util.find_spec("tensorboardX") is None:
        raise missing_extra("--tensorboard", extra="tensorboard")
    settings = settings | fitting(settings)
    with stdout_for_result(flags.json) as stdout:
        run = build_run(algorithm, settings, flags.out)
        run = run if flags.out else run.moved_to(default_folder(run))
        with Progress(flags.quiet) as progress, progress.waiting("preparing"):
            run.try_out()  # before anything is written
        if not flags.out:
            run = in_free_folder(run)
        with run.directory.lock():
            begin_folder(run, settings)
            if not algorithm.imitates and flags.preset and not flags.quiet:
                say(about_preset(algorithm, run.options.env))
            return run_session(run, as_json=flags.json, quiet=flags.quiet, stdout=stdout)


def fitting(settings: "Settings") -> "Settings":
    """A memory that the run can fill: what is larger would be saved with every checkpoint. An end may be a step of its own."""
    if "capacity" not in settings:
        return {}
    most = 2 * settings["total_steps"] + LEAST_CAPACITY * settings["num_envs"]
    return {"capacity": min(settings["capacity"], most)}


def about_preset(algorithm: Algorithm, env: str) -> str:
    """Whether the settings begin with a preset."""
    if env in algorithm.presets:
        return f"Settings that are known to learn {env}, and your flags; --no-preset for the defaults."
    return f"No preset for {env}: {algorithm.title}'s defaults, and your flags.{hint_at_twin(env, [algorithm])}"


def run_session(run: "AbstractRun", *, as_json: bool, quiet: bool, stdout: Any) -> int:
    """Train to the end and show the result, or say how to go on. The caller holds the lock of the folder."""
    from .environment import close
    from .progress import Progress
    from .report import is_reported, make_pictures, picture_paths, print_result, result_of
    from .session import train_session

    with Progress(quiet) as progress:
        progress.say(f"{run.title}: {run.about}, seed {run.options.seed}, {run.path}")
        try:
            outcome = train_session(run, progress)
            if outcome.signal is not None:
                where = f"Stopped by {outcome.signal.name} at {run.place(outcome.step)}"
                say(f"{where}; everything is saved. Go on: {hint('resume', run.path)}")
                return 128 + outcome.signal
            result = result_of(run, outcome)
            if is_reported(run, outcome):
                pictures = {what: path for what, path in picture_paths(run).items() if path.exists()}
            else:
                run.directory.write_json("result.json", result)
                pictures = make_pictures(run, outcome, progress)
        finally:
            close(run.env)
    with contextlib.redirect_stdout(stdout):
        print_result(run, result, pictures, outcome.tally.evaluation or {}, as_json=as_json)
    return 0
