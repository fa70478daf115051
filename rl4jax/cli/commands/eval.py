"""`rl4jax eval RUN`."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Annotated, Literal

import tyro

from ..flags import parse
from ..launch import start_jax
from ..output import stdout_for_result


@dataclasses.dataclass(frozen=True)
class EvalFlags:
    run: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    which: Literal["latest", "best"] = "latest"
    """The newest checkpoint, or the best by evaluation."""
    episodes: int = 100
    """How many to play."""
    sample: bool = False
    """Draw actions from the policy instead of taking the most likely ones."""
    seed: int | None = None
    """Of the episodes; none: those of the run's own evaluation."""
    json: bool = False
    """Print one line of JSON to stdout, everything else to stderr."""


def command(argv: Sequence[str]) -> int:
    flags = parse(EvalFlags, argv, command="eval", description="Play whole episodes and report their returns.")
    start_jax()
    import jax

    from rl4jax.collect.evaluation import evaluate
    from rl4jax.core.errors import require
    from rl4jax.core.figures import plus_minus

    from ..build import load_run
    from ..environment import close, make_eval_env

    require(flags.episodes > 0, "--episodes", flags.episodes, "a positive integer")
    with stdout_for_result(flags.json) as stdout:
        run = load_run(flags.run)
        step, state = run.need(flags.which)
        close(run.env)
        env = make_eval_env(run.options.env, flags.episodes)
        key = run.key("eval", step) if flags.seed is None else jax.random.key(flags.seed)
        try:
            result = evaluate(state.policy, env, flags.episodes, key=key, greedy=not flags.sample)
        finally:
            close(env)
        mean, std, count = float(result.mean), float(result.std), len(result.returns)
        if flags.json:
            about = {"env": run.options.env, "which": flags.which, "step": step, "episodes": count, "greedy": not flags.sample}
            print(json.dumps({"eval_return_mean": mean, "eval_return_std": std, **about}), file=stdout)
        else:
            how = "sampled actions" if flags.sample else "greedy"
            place = f"{run.options.env}, {run.place(step)}"
            print(f"{place}: return {plus_minus(mean, std)} over {count} episodes, {how}", file=stdout)
    return 0
