"""Numbers for people. Imports nothing, so that what runs without JAX can use it."""

import math

DIGITS = 4  # as many as mean anything of a mean over episodes


def plus_minus(mean: float, std: float, sign: str = "±") -> str:
    """A mean and its spread with as many decimals as the larger one deserves, never as a power of ten.

    >>> plus_minus(-1139.2, 213.4)
    '-1139 ± 213'
    >>> plus_minus(498.25, 11.61), plus_minus(500.0, 0.0), plus_minus(0.92, 0.392)
    ('498.2 ± 11.6', '500 ± 0', '0.92 ± 0.392')
    """
    largest = max(abs(mean), abs(std))
    known = math.isfinite(largest) and largest > 0
    decimals = min(max(DIGITS - 1 - math.floor(math.log10(largest)), 0), DIGITS - 1) if known else 0
    return f"{_short(mean, decimals)} {sign} {_short(std, decimals)}"


def _short(x: float, decimals: int) -> str:
    text = f"{x:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
