"""How far a run is, on stderr: a bar in a terminal, now and then a line elsewhere."""

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bars, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 10.0
DRAWINGS_PER_SECOND = 3  # each costs milliseconds that training then lacks


class Progress:
    """Speaks to the user while a run goes on; `quiet` keeps all of it back."""

    def __init__(self, quiet: bool = False):
        self._console = Console(stderr=True, emoji=False)
        self._quiet = quiet
        self._bar: Bars | None = None
        self._shown = self._began = time.monotonic()
        self._began_at: int | None = None

    def say(self, text: str, style: str = "") -> None:
        """A message that stays, above the bar."""
        if not self._quiet:
            self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def waiting(self, what: str, shown: bool = True) -> Iterator[None]:
        """Something that takes long and has no steps, such as compiling: a spinner with the seconds so far."""
        if not shown or self._quiet or not self._console.is_terminal:
            yield
            return
        began = time.monotonic()
        with Bars(SpinnerColumn(), TextColumn(what), TimeElapsedColumn(), console=self._console, transient=True) as spinner:
            spinner.add_task(what, total=None)
            yield
        self.say(f"{what}: {time.monotonic() - began:.1f} s", "dim")

    def advance(self, step: int, total: int, unit: str, status: str) -> None:
        """Show the step, how well it goes, the speed (since the first call, which comes after compiling) and the time left."""
        now = time.monotonic()
        if self._began_at is None:
            self._began, self._began_at, self._shown = now, step, now
        pause = 1 / DRAWINGS_PER_SECOND if self._console.is_terminal else SECONDS_BETWEEN_LINES
        if self._quiet or (now - self._shown < pause and step < total):
            return
        self._shown = now
        speed = (step - self._began_at) / (now - self._began) if now > self._began else 0.0
        if not self._console.is_terminal:
            self.say(f"{step}/{total} {unit}, {speed:,.0f} {unit}/s, {status}")
            return
        if self._bar is None:
            columns = TextColumn("{task.fields[text]}"), TimeRemainingColumn(compact=True)
            columns = TextColumn("training"), BarColumn(), MofNCompleteColumn(), *columns
            self._bar = Bars(*columns, console=self._console, refresh_per_second=DRAWINGS_PER_SECOND)
            self._task = self._bar.add_task("", total=total, completed=step, text="")
            self._bar.start()
        self._bar.update(self._task, completed=step, text=f"{speed:,.0f} {unit}/s  {status}")

    def pause(self) -> None:
        """Take the bar down; the next `advance` puts up a new one."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.pause()
