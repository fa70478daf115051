"""SIGINT and SIGTERM as a wish to stop, which the training loop grants after the current turn."""

import signal
import threading
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """`with Interrupts() as stop: ... if stop.signal: ...`; the second Ctrl-C stops at once. Old handlers come back at the end."""

    def __init__(self):
        self.signal: signal.Signals | None = None
        self._old: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():  # only there may handlers be set
            self._old = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: Any) -> None:
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)
