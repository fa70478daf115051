"""How the other files here are started: `--help` shows the first lines of one, `--short` makes a run of a few seconds."""

import argparse
from collections.abc import Callable
from typing import Any


def start(main: Callable[..., Any], about: str | None, *, words: str = "") -> None:
    """Read the command line and run. `words` is what may be given besides flags. In a script of your own, `main()` is enough."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a run of a few seconds, which shows only that it works")
    if words:
        parser.add_argument("words", nargs="*", metavar=words)
    given = parser.parse_args()
    main(*(given.words if words else ()), short=given.short)
    if given.short:
        print("This was a short run: it shows only that the example works, not what it learns.")
