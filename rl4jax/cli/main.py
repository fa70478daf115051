"""`rl4jax COMMAND ...`: find the command, run it, and turn errors into messages and exit codes."""

import importlib
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from rl4jax.core.errors import ConfigError, MissingPackage, Rl4JaxError, did_you_mean, missing_package

from .errors import RunFailed

COMMANDS = {
    "train": "train ALGORITHM ENV: train an agent by ppo, dqn, impala or dreamer; `rl4jax train ppo --help` lists every setting",
    "bc": "bc RUN: clone the agent of a run",
    "distill": "distill RUN...: distill the agents of one or several runs into one",
    "resume": "resume RUN: go on with a run that was interrupted, or make it longer",
    "eval": "eval RUN: play whole episodes and report their returns",
    "record": "record RUN: write a GIF of an episode",
    "export": "export RUN: write the policy as a folder that runs without JAX: ONNX, weights, model card",
    "serve": "serve DIR: answer over HTTP with an exported policy; needs no JAX",
    "doctor": "doctor RUN: report the gradient of each parameter, and what is wrong with it",
    "plot": "plot RUN...: draw the learning curves of one or several runs",
    "envs": "envs: list the built-in environments; envs ENV: the presets of one",
}  # the imports that take long are made by the command that needs them
# Where policies only run, these may be left out.
NEEDED = ("tyro", "rich", "jax", "equinox", "jaxtyping", "optax", "beartype", "safetensors", "PIL")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            return dispatch(sys.argv[1:] if argv is None else argv)
        except RunFailed as error:
            say(str(error), "red")
            return 1
        except Rl4JaxError as error:
            say(str(error), "red")
            return 2
        except MissingPackage as error:
            say(str(error), "red")
            return 1
        except BrokenPipeError:  # whoever read our output has seen enough
            sys.stdout = None
            return 1
        except OSError as error:
            say(f"{error}.", "red")
            return 1
        except KeyboardInterrupt:
            say("Stopped.", "red")
            return 130


def dispatch(argv: Sequence[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print("usage: rl4jax COMMAND ...\n\nReinforcement learning on JAX.\n")
        print("\n".join(f"  {text}" for text in COMMANDS.values()))
        print("\n`rl4jax COMMAND --help` says more.")
        return 0
    if argv[0] == "--version":
        import rl4jax

        print(f"rl4jax {rl4jax.__version__}")
        return 0
    if argv[0] not in COMMANDS:
        raise ConfigError(f"rl4jax: there is no command {argv[0]!r}. {did_you_mean(argv[0], COMMANDS)}")
    try:
        module = importlib.import_module(f"rl4jax.cli.commands.{argv[0]}")
        return module.command(argv[1:])
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        wanted = [error.name] if argv[0] == "serve" else NEEDED
        raise missing_package(f"rl4jax {argv[0]}", *wanted) from error


def say(text: str, style: str = "") -> None:
    """A message to stderr, as it is: brackets are no markup and lines are not broken."""
    try:
        from rich.console import Console
    except ImportError:  # where policies only run: no colours
        print(text, file=sys.stderr)
        return
    Console(stderr=True, emoji=False).print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def _show_warning(message: Any, category: Any, filename: Any, lineno: Any, file: Any = None, line: Any = None) -> None:
    say(f"Warning: {message}", "yellow")
