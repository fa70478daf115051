"""`rl4jax doctor RUN`."""

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Annotated, Literal

import tyro

from ..flags import parse
from ..launch import start_jax
from ..output import stdout_for_result


@dataclasses.dataclass(frozen=True)
class DoctorFlags:
    run: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    which: Literal["latest", "best"] = "latest"
    """The newest checkpoint, or the best by evaluation."""
    json: bool = False
    """Print one line of JSON to stdout, everything else to stderr."""


def command(argv: Sequence[str]) -> int:
    about = "Report the gradient of each parameter by the loss of the run, on a fresh rollout. The exit code is 1 if one is at fault."
    flags = parse(DoctorFlags, argv, command="doctor", description=about)
    start_jax()
    from rich.console import Console

    from rl4jax.gradients import report
    from rl4jax.nn import ActorCritic

    from ..build import load_run
    from ..environment import close
    from ..own_loss import own_loss

    with stdout_for_result(flags.json) as stdout:
        run = load_run(flags.run)
        try:
            step, state = run.need(flags.which)
            own = own_loss(run, state)
        finally:
            close(run.env)
        found = report(own.loss, own.model, *own.args)
        valued = {x.name for x in report(own.spared, own.model) if x.flows} if own.spared else set()
        spared = [x.name for x in found.faults if x.status == "disconnected" and x.name in valued]
        faults = [x.name for x in found.faults if x.name not in spared]
        zero = [x.name for x in found if x.status == "zero"]
        healthy = not faults and math.isfinite(found.loss)
        if flags.json:
            result = {"run": str(run.path), "step": step, "healthy": healthy, "faults": faults, "zero": zero, "spared": spared}
            print(json.dumps(result | json.loads(found.to_json())), file=stdout)
        else:
            console = Console(file=stdout, markup=False, highlight=False, emoji=False)
            console.width = console.width if console.is_terminal else 160  # a file has room for the causes
            console.print(found.table())
            if isinstance(own.model, ActorCritic) and len(own.model.trunks) == 2:
                console.print("trunks.0 is the network of the actor, trunks.1 that of the critic.", soft_wrap=True)
            about = f"{run.title}, {run.place(step)}"
            console.print(f"\n{about}: {verdict(len(found) - len(spared), faults, zero, healthy)}", soft_wrap=True)
            if spared:
                console.print(
                    f"{len(spared)} are of the critic, which a clone does not train: its expert showed no values.", soft_wrap=True
                )
    return int(not healthy)


def verdict(count: int, faults: list[str], zero: list[str], healthy: bool) -> str:
    """What is to be said of so many parameters.

    >>> verdict(8, [], ["value.weight"], True)
    '7 of 8 parameters have a gradient; 1 is zero for these observations: value.weight.'
    """
    from rl4jax.gradients.findings import in_short

    if faults:
        said = f"{len(faults)} of {count} parameters have none that is of use"
    elif not healthy:
        said = "the loss is not finite"
    else:
        said = f"{count - len(zero)} of {count} parameters have a gradient" if zero else f"all {count} parameters have a gradient"
    return f"{said}; {len(zero)} {'is' if len(zero) == 1 else 'are'} zero for these observations: {in_short(zero)}." if zero else f"{said}."
