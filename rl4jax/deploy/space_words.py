"""The spaces of a bundle for people to read."""

from typing import Any

from .codec import SpaceSpec


def in_words(spec: SpaceSpec) -> str:
    """About as Gymnasium prints it.

    >>> in_words({"type": "Discrete", "n": 2, "start": 1})
    'Discrete(2, from 1)'
    >>> in_words({"type": "Box", "own_shape": [1], "low": -2.0, "high": 2.0})
    'Box([1], from -2 to 2)'
    >>> in_words({"type": "Dict", "spaces": {"a": {"type": "Discrete", "n": 2}}})
    "Dict('a': Discrete(2))"
    """
    if spec["type"] in ("Dict", "Tuple"):
        parts = spec["spaces"].items() if spec["type"] == "Dict" else enumerate(spec["spaces"])
        return f"{spec['type']}({', '.join(f'{key!r}: {in_words(part)}' for key, part in parts)})"
    what = spec.get("n") or spec.get("nvec") or spec["own_shape"]
    return f"{spec['type']}({what}{_bounds(spec)})"


def _bounds(spec: SpaceSpec) -> str:
    if spec["type"] == "Box":
        return f", from {_bound(spec.get('low'), '-inf')} to {_bound(spec.get('high'), 'inf')}"
    return f", from {spec['start']}" if "start" in spec else ""


def _bound(bound: Any, none: str) -> str:
    if isinstance(bound, list):
        return f"[{', '.join(_bound(x, none) for x in bound)}]"
    return none if bound is None else f"{bound:g}"
