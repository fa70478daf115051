"""`rl4jax export RUN`."""

import dataclasses
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ..flags import parse
from ..launch import start_jax

if TYPE_CHECKING:
    from rl4jax.nn.model import Model

    from ..run import AbstractRun


@dataclasses.dataclass(frozen=True)
class ExportFlags:
    run: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    out: str | None = None
    """The folder of the bundle; none: `bundle` in that of the run."""
    web: str | None = None
    """Also write a page there that plays the policy in a browser: CartPole, Pendulum, MountainCar, Acrobot, GridWorld or Catch."""
    which: Literal["latest", "best"] = "latest"
    """The newest checkpoint, or the best by evaluation."""
    sample: bool = False
    """A policy that draws its actions, by noise that is one more input, instead of taking the most likely ones."""
    episodes: int = 100
    """How many to play for the model card."""


def command(argv: Sequence[str]) -> int:
    flags = parse(ExportFlags, argv, command="export", description="Write a policy as a folder that runs without JAX: ONNX, weights, card.")
    start_jax()

    from rl4jax.collect.evaluation import evaluate
    from rl4jax.core.errors import require
    from rl4jax.core.figures import plus_minus
    from rl4jax.deploy.card import in_shell, play_command
    from rl4jax.deploy.exporting import check_packages, check_target, export
    from rl4jax.deploy.web import check_ort, check_target as check_page, parse_env, write_page

    from ..build import load_run
    from ..environment import close, make_eval_env
    from ..main import say
    from ..output import hint, python
    from ..policy import has_masks

    check_packages()  # all that may be wrong before the work
    require(flags.episodes > 0, "--episodes", flags.episodes, "a positive integer")
    run = load_run(flags.run)
    step, state = run.need(flags.which)
    name, model = run.options.env, state.policy
    out = Path(flags.out) if flags.out else Path(flags.run) / "bundle"
    check_target(out)
    if flags.web:
        parse_env(name)  # the page has only some environments
        check_page(Path(flags.web))
        require(Path(flags.web).resolve() != out.resolve(), "--web", flags.web, "another folder than that of the bundle")
        check_ort()
    say(f"Playing {flags.episodes} episodes, drawing one, converting the policy and comparing it with JAX ...")
    try:
        games = make_eval_env(name, flags.episodes)
        try:
            result = evaluate(model, games, flags.episodes, key=run.key("eval", step), greedy=not flags.sample)
        finally:
            close(games)
        about = {
            "algorithm": run.algorithm.name,
            "env": name,
            "step": step,
            "seed": run.options.seed,
            "checkpoint": flags.which,
            "value": meaning_of_value(run),
            "evaluation": {
                "mean": float(result.mean),
                "std": float(result.std),
                "episodes": len(result.returns),
                "greedy": not flags.sample,
            },
        }
        export(model, run.env, out, masked=has_masks(run.env), sample=flags.sample, about=about, replay=picture(run, model, flags.sample))
    finally:
        close(run.env)
    print(f"{out}: return {plus_minus(float(result.mean), float(result.std))} over {len(result.returns)} episodes")
    if play := play_command(str(out), name, python()):
        print(f"  play   {play}")
    print(f"  serve  {hint('serve', out)}")
    if flags.web:
        print(f"  look   {python()} -m http.server --directory {in_shell(str(write_page(out, Path(flags.web))))}")
    return 0


def meaning_of_value(run: "AbstractRun") -> str:
    """What the output `value` is: rewards may have been scaled, and to clone is to learn no critic."""
    if run.algorithm.name == "bc":
        return "nothing: cloning teaches no critic"
    scaled = run.algorithm.name == "ppo" and run.cfg.normalize_reward
    return "expected discounted return" + (", of rewards divided by their running spread" if scaled else "")


def picture(run: "AbstractRun", model: "Model", sample: bool) -> bytes | None:
    """A GIF of an episode, if it can be drawn."""
    import jax

    from rl4jax.core.errors import EnvError

    from ..policy import make_policy
    from ..recording import record_episode

    with tempfile.TemporaryDirectory() as folder:
        gif = Path(folder) / "replay.gif"
        try:
            record_episode(run.options.env, make_policy(model, run.env), gif, key=jax.random.key(0), sample=sample)
        except EnvError as error:
            warnings.warn(f"The bundle has no replay.gif: {error}", stacklevel=2)
            return None
        return gif.read_bytes()
