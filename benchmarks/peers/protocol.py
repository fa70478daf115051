"""How a peer and our benchmark talk: the peer says `ready`, then answers every `go` with `<env_steps> <seconds>`, until `quit` or the end.

Import it before anything else: from then on, what libraries print goes to stderr.
"""

import os
import sys
import time
from collections.abc import Callable

_answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(*words: object) -> None:
    print(*words, file=_answers, flush=True)


def serve(train: Callable[[], int]) -> None:
    """`train` goes on from where its last call ended, waits for its result and says how many env steps it took.

    It is called twice before `ready`: nothing is compiled or allocated for the first time while the clock runs.
    """
    train()
    train()
    say("ready")
    for line in sys.stdin:
        if line.strip() == "quit":
            return
        if line.strip() != "go":
            raise ValueError(f"a peer was told {line!r}; it knows go and quit")
        start = time.perf_counter()
        num_steps = train()
        say(num_steps, time.perf_counter() - start)
