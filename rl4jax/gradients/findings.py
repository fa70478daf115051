"""What a report says: the gradient of each parameter, as a table, as text and as JSON."""

import dataclasses
import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from rl4jax.core.errors import did_you_mean

if TYPE_CHECKING:
    from rich.console import Group

Status = Literal["ok", "zero", "non-finite", "blocked", "disconnected"]
STYLES: dict[Status, str] = {"ok": "", "zero": "yellow", "non-finite": "red", "blocked": "red", "disconnected": "red"}
FAULTS = ("non-finite", "blocked", "disconnected")
COLUMNS = {"parameter": str.ljust, "shape": str.ljust, "norm": str.rjust, "share": str.rjust, "status": str.ljust}


class Cause(NamedTuple):
    """Why a gradient is not what it should be."""

    what: str
    place: str  # the file and line of the operation, "" if nobody knows

    def __str__(self) -> str:
        return f"{self.what} at {self.place}" if self.place else self.what


@dataclasses.dataclass(frozen=True)
class Gradient:
    """That of one parameter.

    | status | meaning |
    |---|---|
    | `ok` | the parameter learns |
    | `zero` | a gradient flows, and is zero for these numbers: a dead ReLU, a saturated tanh, a branch that was not taken |
    | `non-finite` | there is a NaN or an infinity in it |
    | `blocked` | the loss depends on the parameter, but every way there ends in an operation without a derivative |
    | `disconnected` | the loss does not depend on the parameter |
    """

    name: str  # of the parameter, as in `layers.0.weight`
    shape: tuple[int, ...]
    norm: float
    share: float  # of the squared norm of all gradients: shares add up to 1
    status: Status
    causes: tuple[Cause, ...] = ()  # those that were found

    @property
    def cause(self) -> str:
        """The causes in words, "" if there is none."""
        return "; ".join(map(str, self.causes))

    @property
    def flows(self) -> bool:
        """Whether there is a way for the gradient, whatever it is for these numbers."""
        return self.status not in ("blocked", "disconnected")

    def cells(self) -> tuple[str, ...]:
        """Its row of the table."""
        share = f"{self.share:.1%}" if math.isfinite(self.share) else "-"
        return self.name, "x".join(map(str, self.shape)), f"{self.norm:.3g}", share, self.status


@dataclasses.dataclass(frozen=True)
class Report:
    """The gradients of a loss, parameter by parameter: `print(report)`, or `rich.print(report.table())`."""

    loss: float
    norm: float  # of all gradients together
    gradients: tuple[Gradient, ...]
    causes: tuple[Cause, ...] = ()  # of a loss that is not finite

    @property
    def faults(self) -> tuple[Gradient, ...]:
        """Those that are not finite, blocked or disconnected. A gradient that merely is zero is no fault by itself."""
        return tuple(gradient for gradient in self.gradients if gradient.status in FAULTS)

    @property
    def ok(self) -> bool:
        """Whether there is no fault, and the loss is finite."""
        return not self.faults and math.isfinite(self.loss)

    def __getitem__(self, name: str) -> Gradient:
        found = {gradient.name: gradient for gradient in self.gradients}
        if name not in found:
            raise KeyError(f"There is no parameter {name!r}. {did_you_mean(name, found)}")
        return found[name]

    def __iter__(self) -> Iterator[Gradient]:
        return iter(self.gradients)

    def __len__(self) -> int:
        return len(self.gradients)

    def __str__(self) -> str:
        rows = [tuple(COLUMNS), *(gradient.cells() for gradient in self.gradients)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        pads = list(zip(COLUMNS.values(), widths, strict=True))
        lines = ["  ".join(pad(cell, width) for (pad, width), cell in zip(pads, row, strict=True)).rstrip() for row in rows]
        return "\n".join([self.headline, *lines, *self.reasons])

    @property
    def headline(self) -> str:
        """The two numbers of the whole."""
        return f"loss {self.loss:.4g}, norm of the gradient {self.norm:.4g}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """A line for each cause, with what it concerns."""
        return tuple(text for _, text in self._reasons())

    def _reasons(self) -> list[tuple[Status, str]]:
        concerned: dict[tuple[Status, str], list[str]] = {("non-finite", str(cause)): ["loss"] for cause in self.causes}
        for gradient in self.gradients:
            if gradient.causes:
                concerned.setdefault((gradient.status, gradient.cause), []).append(gradient.name)
        return [(status, f"{in_short(names)}: {status}, {cause}") for (status, cause), names in concerned.items()]

    def table(self) -> "Group":
        """The same for rich: the table, and below it the causes."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, header_style="bold", title=self.headline, title_justify="left", title_style="")
        for name, pad in COLUMNS.items():
            table.add_column(name, justify="right" if pad is str.rjust else "left", no_wrap=True)
        for gradient in self.gradients:
            table.add_row(*gradient.cells(), style=STYLES[gradient.status])
        return Group(table, *(Text(text, STYLES[status]) for status, text in self._reasons()))

    def to_json(self) -> str:
        """One line. JSON has null where a number is not finite."""
        found = {
            "ok": self.ok,
            "loss": _finite(self.loss),
            "norm": _finite(self.norm),
            "causes": [cause._asdict() for cause in self.causes],
        }
        rows = [
            {"name": row.name, "shape": row.shape, "norm": _finite(row.norm), "share": _finite(row.share), "status": row.status}
            | {"causes": [cause._asdict() for cause in row.causes]}
            for row in self.gradients
        ]
        return json.dumps(found | {"gradients": rows})


def in_short(names: list[str]) -> str:
    """At most four of them.

    >>> in_short(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
