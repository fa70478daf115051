"""`rl4jax train ppo ENV`."""

import contextlib
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
    flags, settings = read_settings(argv[1:])
    with stdout_for_result(flags.json) as stdout:
        run = new_run(settings, flags.out)
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


def new_run(settings: Settings, out: str) -> "Run":
    """Build the run, so that nothing is written if that fails, and then write down what it is."""
    from ..run import ALGORITHM, all_settings, build_run

    path = Path(out) if out else free_folder(settings["env"])
    if any((path / name).exists() for name in ("config.json", "log.jsonl", "checkpoints")):
        raise CheckpointError(f"{path} already holds a run. Go on with it: rl4jax resume {path}. Or choose another --out.")
    if settings["tensorboard"] and importlib.util.find_spec("tensorboardX") is None:
        raise missing_extra("--tensorboard", extra="tensorboard")
    run = build_run(settings, path)
    settings = all_settings(run, settings)
    with run.directory.lock():
        run.directory.write_json("versions.json", versions())
        run.directory.write_json("config.json", {"algorithm": ALGORITHM, **settings})
        (path / "config.toml").write_text(f"# rl4jax train {ALGORITHM} --config {path}/config.toml\n{to_toml(settings)}", encoding="utf-8")
    return run


def free_folder(env: str) -> Path:
    name = re.sub(r"[^\w.-]+", "-", env).strip("-")
    path = Path("runs") / f"ppo-{name}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    numbered = (path.with_name(f"{path.name}-{i}") for i in range(2, 1000))
    return path if not path.exists() else next(other for other in numbered if not other.exists())


def versions() -> dict[str, str]:
    return {"python": sys.version.split()[0], **{name: metadata.version(name) for name in PACKAGES}}


def run_session(run: "Run", *, as_json: bool, quiet: bool, stdout: Any = None) -> int:
    """Train to the end and show the result, or say how to go on."""
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
            if outcome.was_finished and (run.path / "result.json").exists():
                pictures = {what: path for what, path in picture_paths(run).items() if path.exists()}
            else:
                run.directory.write_json("result.json", result)
                pictures = make_pictures(run, outcome, progress)
        finally:
            close(run.env)
    with contextlib.redirect_stdout(stdout or sys.stdout):
        print_result(run, result, pictures, outcome.tally.evaluation or {}, as_json=as_json)
    return 0


@contextlib.contextmanager
def stdout_for_result(reserved: bool) -> Iterator[Any]:
    """With `--json`, whatever others print goes to stderr; yields the true stdout."""
    stdout = sys.stdout
    with contextlib.redirect_stdout(sys.stderr) if reserved else contextlib.nullcontext():
        yield stdout
