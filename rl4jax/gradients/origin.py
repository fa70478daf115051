"""The operation that first made a number what it should not be: not finite, or zero."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, jaxpr_as_fun

from .graph import Graph, inner_program, is_float
from .quick import evaluate, quick_jit, with_outputs


class Origin(NamedTuple):
    """An operation on inputs that were still in order, and those around it from the inside out; or an input that was not."""

    equations: tuple[JaxprEqn, ...] = ()
    given: Any = None  # that input, as the variable of the program
    wrong: int = 1  # how wrong it was


def not_finite(x: Any) -> int:
    """2 for an array with NaN, 1 for one with infinities, which may be meant: NaN is followed first."""
    x = np.asarray(x, np.complex128)  # NumPy does not know all floats of JAX
    return 2 if np.isnan(x).any() else 0 if np.isfinite(x).all() else 1


def all_zero(x: Any) -> int:
    """1 for an array of zeros."""
    return int(not np.any(x))


class Search:
    """The values of one program that lead to some outputs, looked at once, and the way back from them to where one went wrong."""

    def __init__(
        self,
        program: ClosedJaxpr,
        values: Sequence[Any],
        outs: Sequence[int],
        how_wrong: Callable[[Any], int],
        concerned: Sequence[bool] | None = None,
    ):
        """Only what is computed from the inputs concerned is suspected; None: everything is."""
        self.program, self.values, self.how_wrong, self.everything = program, list(values), how_wrong, concerned is None
        self.made_by = {out: equation for equation in program.eqns for out in equation.outvars}
        self.known: dict[Any, Origin] = {}
        graph = Graph(program)
        used = graph.to_nodes([graph.outputs[out] for out in outs])
        if concerned is not None:
            used &= graph.from_nodes([node for node, yes in zip(graph.inputs, concerned, strict=True) if yes])
        self.concerned = {var for var, node in graph.values.items() if node in used}
        self.suspects = {var: wrong for var, wrong in self._looked_at().items() if wrong}

    def origin_of(self, out: int) -> Origin | None:
        """Where an output went wrong: back through wrong values to an operation that made one of values that were not."""
        var = self.program.jaxpr.outvars[out]
        if isinstance(var, Literal) or var not in self.suspects:
            return None
        while var in self.made_by:
            before = [x for x in self.made_by[var].invars if not isinstance(x, Literal) and x in self.suspects]
            if not before:
                if var not in self.known:
                    self.known[var] = self._inside(self.made_by[var], self.made_by[var].outvars.index(var))
                return self.known[var]._replace(wrong=self.suspects[var])
            var = max(before, key=lambda x: self.suspects[x])
        return Origin(given=var, wrong=self.suspects[var])

    def _inside(self, equation: JaxprEqn, out: int) -> Origin:
        """The same inside of an operation that is a program itself."""
        inner, found = inner_program(equation), None
        if equation.primitive.name == "cond":
            index, *given = self._inputs_of(equation)
            found = self._of(equation.params["branches"][int(index)], given, out, equation.invars[1:])
        elif equation.primitive.name == "scan":
            found = self._in_steps(equation) if self.everything else None
        elif inner is not None:
            found = self._of(inner, self._inputs_of(equation), out, equation.invars)
        return Origin((*(found.equations if found else ()), equation))

    def _of(self, inner: ClosedJaxpr, given: Sequence[Any], out: int, invars: Sequence[Any]) -> Origin | None:
        concerned = None if self.everything else [not isinstance(x, Literal) and x in self.concerned for x in invars]
        return Search(inner, given, [out], self.how_wrong, concerned).origin_of(out)

    def _in_steps(self, equation: JaxprEqn) -> Origin | None:
        """The same inside the first step of a scan that makes something wrong."""
        params, given = equation.params, self._inputs_of(equation)
        begin, end = params["num_consts"], params["num_consts"] + params["num_carry"]
        body, consts, carry = params["jaxpr"], given[:begin], given[begin:end]
        step = quick_jit(jaxpr_as_fun(body))
        for t in range(params["length"])[:: -1 if params["reverse"] else 1]:
            inputs = [*consts, *carry, *(x[t] for x in given[end:])]
            outputs = step(*inputs)
            wrong = [j for j, x in enumerate(outputs) if jnp.issubdtype(x.dtype, jnp.inexact) and self.how_wrong(x)]
            if wrong:
                return Search(body, inputs, wrong[:1], self.how_wrong).origin_of(wrong[0])
            carry = outputs[: end - begin]
        return None

    def _inputs_of(self, equation: JaxprEqn) -> list[Any]:
        """The values that an operation was given."""
        found = iter(self._values_of([x for x in equation.invars if not isinstance(x, Literal)]))
        return [x.val if isinstance(x, Literal) else next(found) for x in equation.invars]

    def _looked_at(self) -> dict[Any, int]:
        """How wrong each number is, by its variable. To look at them inside of the program would take long to compile."""
        floats = [x for x in self.concerned if is_float(x) and x.aval.size]
        return {x: self.how_wrong(value) for x, value in zip(floats, jax.device_get(self._values_of(floats)), strict=True)}

    def _values_of(self, variables: list[Any]) -> list[Any]:
        return quick_jit(functools.partial(evaluate, with_outputs(self.program.jaxpr, variables)))(self.program.consts, self.values)
