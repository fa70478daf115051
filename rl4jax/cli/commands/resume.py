"""`rl4jax resume RUN`."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Literal

import tyro

from rl4jax.core.errors import CheckpointError, ConfigError, require

from ..flags import parse
from ..launch import run_session, start_jax
from ..main import say
from ..output import stdout_for_result


@dataclasses.dataclass(frozen=True)
class ResumeFlags:
    run: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    total_steps: Annotated[int | None, tyro.conf.arg(help="Train for longer than the run was started for; a finished run goes on.")] = None
    on_nonfinite: Annotated[Literal["stop", "skip"] | None, tyro.conf.arg(help="Another choice than the run was started with.")] = None
    json: bool = False
    """Print one line of JSON with the result to stdout, everything else to stderr."""
    quiet: bool = False
    """No progress."""


def command(argv: Sequence[str]) -> int:
    flags = parse(ResumeFlags, argv, command="resume", description="Go on with a run from its newest checkpoint, or make it longer.")
    start_jax()
    from ..build import build_run, stored_settings
    from ..folder import store_settings

    with stdout_for_result(flags.json) as stdout:
        algorithm, stored = stored_settings(flags.run)
        if flags.total_steps is not None and algorithm.imitates:
            raise ConfigError(
                f"--total-steps: {flags.run} is of {algorithm.title} and counts epochs. Begin another: rl4jax {algorithm.name}."
            )
        asked = {"total_steps": flags.total_steps, "on_nonfinite": flags.on_nonfinite}
        settings = stored | {name: value for name, value in asked.items() if value is not None}
        run = build_run(algorithm, settings, flags.run)
        with run.directory.lock():
            compare_versions(run)
            if flags.total_steps is not None:
                check_is_longer(run)
            if settings != stored:
                store_settings(run, settings)
            return run_session(run, as_json=flags.json, quiet=flags.quiet, stdout=stdout)


def check_is_longer(run) -> None:
    """Raise if the run has gone further than it should go."""
    done = next((step for step in reversed(run.directory.steps()) if is_readable(run, step)), 0)
    rule = f"at least {done}, the steps that {run.path} has been trained for"
    require(run.last_step >= done, "--total-steps", run.options.total_steps, rule)


def is_readable(run, step: int) -> bool:
    try:
        run.metadata(step)
    except CheckpointError:
        return False
    return True


def compare_versions(run) -> None:
    """Bit by bit the same result needs the same versions."""
    from ..folder import versions

    if (run.path / "versions.json").is_file():
        then, now = run.directory.read_json("versions.json"), versions()
        changed = [f"{name} {then[name]} -> {now[name]}" for name in now if name in then and then[name] != now[name]]
        if changed:
            say(f"Other versions than the run was started with: {', '.join(changed)}. The result may differ in the last bits.", "yellow")
