"""The rules that the numbers of a config must obey, checked when it is built."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .errors import is_count, require
from .number import is_concrete
from .schedule import Linear

Rule = tuple[Callable[[Any], Any], str]  # what must hold of the number, and how to say it

NOT_NEGATIVE: Rule = (lambda x: x >= 0, "zero or more")
POSITIVE: Rule = (lambda x: x > 0, "positive")
SHARE: Rule = (lambda x: (x >= 0) & (x <= 1), "in [0, 1]")
RATE: Rule = (lambda x: x >= 0, "zero or more, or a schedule")
CLIP: Rule = (lambda x: x >= 0, "positive, or 0 for no clipping")


def check_counts(cfg: Any, name: str, *fields: str) -> None:
    """Raise unless these fields are positive integers."""
    for field in fields:
        require(is_count(getattr(cfg, field)), f"{name}.{field}", getattr(cfg, field), "a positive integer")


def check_numbers(cfg: Any, name: str, rules: Mapping[str, Rule]) -> None:
    """Raise unless each of these fields is a finite number within its rule, or both ends of its line are.

    Traced values and functions cannot be looked at. None and schedules pass where the rule speaks of them.
    """
    for field, (ok, rule) in rules.items():
        setting = getattr(cfg, field)
        if (isinstance(setting, Linear) or callable(setting)) and "schedule" not in rule:
            require(False, f"{name}.{field}", setting, rule, "It takes one number and no schedule.")
        for x in (setting.start, setting.end) if isinstance(setting, Linear) else (setting,):
            if callable(x) or not is_concrete(x) or (x is None and "None" in rule):
                continue
            number: Any = np.asarray(x)
            good = number.dtype.kind in "iuf" and bool((np.isfinite(number) & ok(number)).all())
            fix = "A line is rl.Linear(start, end, num_updates)." if isinstance(x, str) else ""
            require(good, f"{name}.{field}", setting, rule, fix)
