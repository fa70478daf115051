"""Standard output kept for the result, and how commands are spelled in hints."""

import contextlib
import ctypes
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rl4jax.deploy.card import in_shell


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


def hint(command: str, folder: str | os.PathLike[str]) -> str:
    """A command to type, with the program as it was started if that is not on the PATH."""
    program = shlex.quote(sys.argv[0]) if _off_path() else "rl4jax"
    return f"{program} {command} {in_shell(str(folder))}"


def python() -> str:
    """The Python to type: this one by its path, if it is not that of the shell."""
    return shlex.quote(sys.executable) if _off_path() else "python"


def _off_path() -> bool:
    return Path(sys.argv[0]).name == "rl4jax" and not shutil.which("rl4jax")


def flush_all() -> None:
    """Write out whatever Python and C libraries have printed so far."""
    if sys.__stdout__ is not None:
        sys.__stdout__.flush()
    with contextlib.suppress(OSError, TypeError, AttributeError):  # where there is no such library
        ctypes.CDLL(None).fflush(None)
