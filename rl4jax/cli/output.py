"""Standard output kept for the result."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from typing import Any


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


def flush_all() -> None:
    """Write out whatever Python and C libraries have printed so far."""
    if sys.__stdout__ is not None:
        sys.__stdout__.flush()
    with contextlib.suppress(OSError, TypeError, AttributeError):  # where there is no such library
        ctypes.CDLL(None).fflush(None)
