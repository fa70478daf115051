"""`rl4jax train ppo ENV`."""

import contextlib
import ctypes
import datetime
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl4jax.core.errors import CheckpointError, ConfigError, did_you_mean, missing_extra

from ..flags import parse, train_flags
from ..main import say
from ..presets import PPO
from ..settings import Settings, checked, defaults, known, read_toml, to_toml

if TYPE_CHECKING:
    from ..run import Run

ALGORITHMS = ("ppo",)
PACKAGES = ("rl4jax", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium")
DESCRIPTION = """Train an agent with PPO. Settings come from the preset of the environment, a TOML file (--config) and flags; the later
ones win."""


def command(argv: Sequence[str]) -> int:
    if not argv or argv[0] not in ALGORITHMS:
        if argv and argv[0] in ("-h", "--help"):
            print(f"usage: rl4jax train ALGORITHM ENV ...\n\nAlgorithms: {', '.join(ALGORITHMS)}. More: rl4jax train ppo --help")
            return 0
        what = f"there is no algorithm {argv[0]!r}" if argv else "no algorithm is given"
        raise ConfigError(f"rl4jax train: {what}. {did_you_mean(argv[0] if argv else '', ALGORITHMS)} Type: rl4jax train ppo CartPole")
    start_jax()
    from ..run import build_run

    flags, settings = read_settings(argv[1:])
    if settings["tensorboard"] and importlib.util.find_spec("tensorboardX") is None:
        raise missing_extra("--tensorboard", extra="tensorboard")
    with stdout_for_result(flags.json) as stdout:
        run = build_run(settings, flags.out or default_folder(flags.env))  # before anything is written: it may fail
        if not flags.out:
            run = in_free_folder(run)
        with run.directory.lock():
            begin_folder(run, settings)
            if flags.preset and flags.env in PPO and not flags.quiet:
                say(f"Settings that are known to learn {flags.env}, and your flags; --no-preset for the defaults.")
            return run_session(run, as_json=flags.json, quiet=flags.quiet, stdout=stdout)


def start_jax() -> None:
    """Before anything is computed: the compilation cache, so that only the first run waits."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # it would greet on stdout
    import rl4jax

    rl4jax.setup()


def read_settings(argv: Sequence[str]) -> tuple[Any, Settings]:
    """The flags, and all settings: defaults, then the preset, then the file, then the flags."""
    cls: Any = train_flags()
    read = functools.partial(parse, cls, command="train ppo", description=DESCRIPTION)
    asked_help = [word for word in argv if word in ("-h", "--help")]
    first = read([word for word in argv if word not in asked_help])
    file = read_toml(first.config) if first.config else {}
    env = first.env or file.get("env", "")
    preset = checked(PPO[env], f"preset of {env}") if first.preset and env in PPO else {}
    flags = read(asked_help or argv, default=cls(**(defaults() | preset | file)))
    if not flags.env:
        raise ConfigError("rl4jax train ppo: no environment is given. Type: rl4jax train ppo CartPole; `rl4jax envs` lists them.")
    return flags, {name: getattr(flags, name) for name in known()}


def default_folder(env: str) -> Path:
    name = re.sub(r"[^\w.-]+", "-", env).strip("-")
    return Path("runs") / f"ppo-{name}-{datetime.datetime.now():%Y%m%d-%H%M%S}"


def in_free_folder(run: "Run") -> "Run":
    """The run in its folder, or that with a number: several may start in one second."""
    for path in (run.path, *(run.path.with_name(f"{run.path.name}-{i}") for i in range(2, 1000))):
        with contextlib.suppress(FileExistsError):
            path.mkdir(parents=True)
            return run.moved_to(path)
    raise CheckpointError(f"{run.path} and a thousand others exist. Choose a folder with --out.")


def begin_folder(run: "Run", settings: Settings) -> None:
    """Write down what the run is, into a folder that holds none yet."""
    if any((run.path / name).exists() for name in ("config.json", "log.jsonl", "checkpoints")):
        raise CheckpointError(f"{run.path} already holds a run. Go on with it: rl4jax resume {run.path}. Or choose another --out.")
    run.directory.write_json("versions.json", versions())
    store_settings(run, settings)


def store_settings(run: "Run", settings: Settings) -> None:
    """The whole configuration, twice: config.json, which `resume` reads, and config.toml, for `--config`."""
    from ..run import ALGORITHM, all_settings

    settings = all_settings(run, settings)
    text = f"# rl4jax train {ALGORITHM} --config {run.path}/config.toml\n{to_toml(settings)}"
    (run.path / "config.toml").write_text(text, encoding="utf-8")
    run.directory.write_json("config.json", {"algorithm": ALGORITHM, **settings})


def versions() -> dict[str, str]:
    return {"python": sys.version.split()[0], **{name: metadata.version(name) for name in PACKAGES}}


def run_session(run: "Run", *, as_json: bool, quiet: bool, stdout: Any) -> int:
    """Train to the end and show the result, or say how to go on. The caller holds the lock of the folder."""
    from ..policy import close
    from ..progress import Progress
    from ..report import make_pictures, picture_paths, print_result, result_of
    from ..session import train_session

    with Progress(quiet) as progress:
        progress.say(
            f"PPO on {run.options.env}: {run.last_step:,} steps, {run.options.num_envs} environments, seed {run.options.seed}, {run.path}"
        )
        try:
            outcome = train_session(run, progress)
            if outcome.signal is not None:
                say(f"Stopped by {outcome.signal.name} at step {outcome.step}; everything is saved. Go on: rl4jax resume {run.path}")
                return 128 + outcome.signal
            result = result_of(run, outcome)
            if (
                outcome.was_finished
                and (run.path / "result.json").exists()
                and run.directory.read_json("result.json")["steps"] == outcome.step
            ):
                pictures = {what: path for what, path in picture_paths(run).items() if path.exists()}
            else:
                run.directory.write_json("result.json", result)
                pictures = make_pictures(run, outcome, progress)
        finally:
            close(run.env)
    with contextlib.redirect_stdout(stdout):
        print_result(run, result, pictures, outcome.tally.evaluation or {}, as_json=as_json)
    return 0


def flush_all() -> None:
    """Write out whatever Python and C libraries have printed so far."""
    if sys.__stdout__ is not None:
        sys.__stdout__.flush()
    with contextlib.suppress(OSError, TypeError, AttributeError):  # where there is no such library
        ctypes.CDLL(None).fflush(None)


@contextlib.contextmanager
def stdout_for_result(reserved: bool) -> Iterator[Any]:
    """With `--json`, whatever others print, C libraries included, goes to stderr; yields the true stdout."""
    if not reserved:
        yield sys.stdout
        return
    sys.stdout.flush()
    with contextlib.ExitStack() as stack:
        number = os.dup(1)
        stack.callback(os.close, number)
        stack.callback(os.dup2, number, 1)
        stack.callback(flush_all)  # what is still in a buffer belongs to stderr too
        stdout = stack.enter_context(open(number, "w", encoding="utf-8", closefd=False)) if sys.stdout is sys.__stdout__ else sys.stdout
        os.dup2(2, 1)
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield stdout
