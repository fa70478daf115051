"""The line of the source that an operation of a traced program comes from, and the name of the function that was called there.

JAX keeps it in parts that are not public, so they are used here only, and whatever they should change into, the answer is then just "".
"""

import functools
import re
import site
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jax.extend import source_info_util
from jax.extend.core import ClosedJaxpr, Jaxpr

CALLED = {
    "select_n": "where", "dot_general": "a matrix product", "conv_general_dilated": "a convolution", "integer_pow": "a power",
    "max": "maximum", "min": "minimum", "logistic": "sigmoid", "clamp": "clip", "pow": "a power",
}  # fmt: skip
CURVES = ("tanh", "logistic", "exp", "exp2", "erf", "log", "sqrt", "rsqrt", "pow", "clamp", "abs", "max", "min")  # of a line the first
PRODUCTS = ("select_n", "mul", "add_any", "sub", "neg", "div")  # what the derivatives of these are made of
FRAME = re.compile(r"^(.*?):(\d+)(?::\d+)? \(.*\)$")  # file:line:column (function)
RL4JAX = Path(__file__).parents[1]
TRACED_BY = Path(__file__).with_name("examination.py")  # what is outside of it did not compute the loss
INSTALLED = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages(), site.getusersitepackages()})


class Frame(NamedTuple):
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{shown(self.file)}:{self.line}"


def place_of(equations: Sequence[Any]) -> str:
    """Where the first of some equations was written; the others are those around it, from the inside out.

    The line is that of the user, or inside rl4jax with the line of the user that led there. A helper of JAX carries no line of its own:
    the equation around it has it.
    """
    frames = [frame for equation in equations for frame in frames_of(equation)]
    if not frames:
        return ""
    own = [frame for frame in frames if not is_installed(frame.file)]
    innermost = next(iter(own or frames))
    user = next((frame for frame in own if not Path(frame.file).is_relative_to(RL4JAX)), innermost)
    return str(user) if user == innermost else f"{innermost} (from {user})"


def called(equations: Sequence[Any], rules: dict[str, str]) -> str:
    """What people call the first of some equations; the others are those around it.

    A helper of JAX, whose inside carries no line, has the name that was typed: `elu`, not the `where` inside. A selection that is not in
    the helper `where`, or a product, may come from the derivative of a function, such as `relu` or `tanh`: then it has the same line and
    column.
    """
    operation = equations[0]
    primitive: str = operation.primitive.name
    name = CALLED.get(primitive, primitive)
    helper = next((equation for equation in equations if frames_of(equation)), operation)
    if helper is not operation or primitive == "jit":
        return str(helper.params.get("name", "")).lstrip("_") or name
    return rules.get(position_of(operation), name) if primitive in PRODUCTS else name


def rules_in(program: Jaxpr) -> dict[str, str]:
    """The names of the functions with a derivative of their own and of the curves that a program calls, by where it does."""
    found = {}
    for curve in CURVES:
        here = [equation for equation in program.eqns if equation.primitive.name == curve]
        found = {position_of(equation): CALLED.get(curve, curve) for equation in here} | found
    for equation in program.eqns:
        if equation.primitive.name == "custom_jvp_call":
            found[position_of(equation)] = name_of(equation)
        for given in equation.params.values():
            for x in given if isinstance(given, tuple) else (given,):
                if isinstance(x, Jaxpr | ClosedJaxpr):
                    found |= rules_in(x.jaxpr if isinstance(x, ClosedJaxpr) else x)
    return {position: name for position, name in found.items() if position and name}


def name_of(equation: Any) -> str:
    """That of the function that a call with a rule is of, "" if JAX does not tell."""
    try:
        return equation.params["call_jaxpr"].jaxpr.debug_info.func_name or ""
    except Exception:  # as in `position_of`
        return ""


def position_of(equation: Any) -> str:
    """All lines and columns that led to an equation, "" if JAX does not tell."""
    try:
        return source_info_util.summarize(equation.source_info, 100)
    except Exception:  # private parts of JAX may change in any way, and a report without lines is better than none
        return ""


def frames_of(equation: Any) -> list[Frame]:
    """The lines that led to an equation, innermost first, without those of JAX and without ours that began the tracing."""
    lines = position_of(equation).splitlines()
    found = [Frame(match[1], int(match[2])) for match in map(FRAME.match, reversed(lines)) if match]
    began = next((i for i, frame in enumerate(found) if Path(frame.file) == TRACED_BY), len(found))
    return [frame for frame in found[:began] if not frame.file.startswith("<@beartype")]


@functools.cache
def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package other than rl4jax."""
    path = Path(file)
    return any(path.is_relative_to(folder) for folder in INSTALLED) and not path.is_relative_to(RL4JAX)


def shown(file: str) -> str:
    """A file as people call it: from the root of its package, from this folder, or by its name."""
    path = Path(file)
    if path.is_relative_to(RL4JAX):
        return str(path.relative_to(RL4JAX.parent))
    root = next((root for root in (*map(Path, INSTALLED), Path.cwd()) if path.is_relative_to(root)), path.parent)
    return str(path.relative_to(root))
