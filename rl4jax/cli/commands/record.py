"""`rl4jax record RUN`."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ..flags import parse
from ..launch import start_jax


@dataclasses.dataclass(frozen=True)
class RecordFlags:
    run: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    out: str | None = None
    """The GIF; none: episode.gif in that folder, or with another --which, --seed or --sample a name that says so."""
    which: Literal["latest", "best"] = "latest"
    """The newest checkpoint, or the best by evaluation."""
    seed: int = 0
    """Of the episode."""
    sample: bool = False
    """Draw actions from the policy instead of taking the most likely ones."""
    max_steps: int = 1000
    """Stop there if the episode has not ended."""
    imagine: bool = False
    """Of a Dreamer: below what happened, what its world model imagined after the first five steps, by the same actions."""


def command(argv: Sequence[str]) -> int:
    flags = parse(RecordFlags, argv, command="record", description="Write a GIF of an episode.")
    start_jax()
    import jax

    from ..build import load_run, stored_settings
    from ..environment import close
    from ..policy import load_policy
    from ..recording import record_episode

    out = Path(flags.out) if flags.out else Path(flags.run) / default_name(flags)
    how = {"key": jax.random.key(flags.seed), "max_steps": flags.max_steps, "sample": flags.sample}
    if flags.imagine:
        from ..imagining import record_imagined

        run = load_run(flags.run)
        try:
            count = record_imagined(run, run.need(flags.which)[1].policy, out, **how)
        finally:
            close(run.env)
    else:
        act, env = load_policy(flags.run, flags.which), stored_settings(flags.run)[1]["env"]
        count = record_episode(env, act, out, **how)
    print(f"{out} ({count} frames)")
    return 0


def default_name(flags: RecordFlags) -> str:
    """Each episode that can be asked for has its own."""
    kinds = {"best": flags.which == "best", "sampled": flags.sample, "imagined": flags.imagine, f"seed{flags.seed}": flags.seed != 0}
    return "-".join(["episode", *(kind for kind, asked in kinds.items() if asked)]) + ".gif"
