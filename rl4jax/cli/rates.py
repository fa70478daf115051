"""Numbers that may change as a run goes on: a number, or `linear(START, END)` with or without a length."""

import re
from typing import Any

from rl4jax.core.errors import ConfigError


class Rate:
    """The kind of a setting that is a number or a line: over the whole run, or over a LENGTH in what the setting counts."""

    _number = r"\s*([^,\s]+)\s*"
    pattern = re.compile(rf"\s*linear\({_number},{_number}(?:,{_number})?\)\s*")


def rate(text: Any, name: str) -> float | str:
    """What was typed, in one spelling.

    >>> rate("linear(1,.05, 1e4)", "--epsilon"), rate(" linear(1e-3, 0)", "--lr"), rate("3e-4", "--lr")
    ('linear(1.0, 0.05, 10000.0)', 'linear(0.001, 0.0)', 0.0003)
    """
    try:
        match = Rate.pattern.fullmatch(text)
        return f"linear({', '.join(str(float(x)) for x in match.groups() if x)})" if match else float(text)
    except (TypeError, ValueError) as error:
        lines = "linear(START, END) or linear(START, END, LENGTH), such as 'linear(3e-4, 0)'"
        raise ConfigError(f"{name} = {text!r} must be a number or {lines}.") from error


def as_typed(setting: Any) -> Any:
    """A setting of a `Config` as it would be typed: a line as its text."""
    from rl4jax.core.schedule import Linear

    if not isinstance(setting, Linear):
        return setting
    return f"linear({float(setting.start)}, {float(setting.end)}, {float(setting.num_updates)})"


def as_setting(value: Any, length: int) -> Any:
    """A value that was typed as a `Config` takes it: a line becomes a schedule, over this length unless it says another."""
    from rl4jax.core.schedule import Linear

    match = Rate.pattern.fullmatch(value) if isinstance(value, str) else None
    return Linear(float(match[1]), float(match[2]), float(match[3] or length)) if match else value
