"""`rl4jax resume RUN`."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Literal

import tyro

from ..flags import parse
from ..main import say
from .train import run_session, start_jax, stdout_for_result, versions


@dataclasses.dataclass(frozen=True)
class ResumeFlags:
    run: tyro.conf.Positional[str]
    """The folder of the run."""
    on_nonfinite: Annotated[Literal["stop", "skip"] | None, tyro.conf.arg(help="Another choice than the run was started with.")] = None
    json: bool = False
    """Print one line of JSON with the result to stdout, everything else to stderr."""
    quiet: bool = False
    """No progress."""


def command(argv: Sequence[str]) -> int:
    flags = parse(ResumeFlags, argv, command="resume", description="Go on with a run from its newest checkpoint.")
    start_jax()
    from ..run import load_run

    with stdout_for_result(flags.json) as stdout:
        run = load_run(flags.run)
        if flags.on_nonfinite:
            run = dataclasses.replace(run, options=dataclasses.replace(run.options, on_nonfinite=flags.on_nonfinite))
        compare_versions(run)
        return run_session(run, as_json=flags.json, quiet=flags.quiet, stdout=stdout)


def compare_versions(run) -> None:
    """Bit by bit the same result needs the same versions."""
    if (run.path / "versions.json").is_file():
        then, now = run.directory.read_json("versions.json"), versions()
        changed = [f"{name} {then[name]} -> {now[name]}" for name in now if name in then and then[name] != now[name]]
        if changed:
            say(f"Other versions than the run was started with: {', '.join(changed)}. The result may differ in the last bits.", "yellow")
