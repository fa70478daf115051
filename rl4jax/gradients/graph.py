"""A traced program of JAX as a graph: which value is computed from which, and where a derivative ends.

Programs inside of programs (`jit`, `scan`, `while`, `cond`, `remat`, custom rules) are laid out in place, loops once and with an edge back.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun

Node = int | None  # None: a literal number, which is computed from nothing
LAYERS = ("dot_general", "conv_general_dilated")
RANDOM = ("random_bits", "random_gamma", "threefry2x32", "rng_bit_generator", "rng_uniform")
STOPS = {"stop_gradient": "stop_gradient"} | {name: name for name in ("round", "floor", "ceil", "sign", "nextafter")}  # float to float
CHOICES = {"argmax": "argmax", "argmin": "argmin", "convert_element_type": "a cast to {dtype}"} | dict.fromkeys(
    ("eq", "ne", "lt", "le", "gt", "ge", "eq_to", "le_to", "lt_to"), "a comparison"
)  # float to something that has no derivative


class Block(NamedTuple):
    """Where a derivative ends, and why."""

    cause: str
    equations: tuple[JaxprEqn, ...]  # the operation, and those around it from the inside out


class Edge(NamedTuple):
    """From a value, or an operation, to what is computed from it."""

    source: Node
    target: Node
    block: Block | None


class Graph:
    """The values and operations of a program, with edges from what is used to what it is used for."""

    def __init__(self, program: ClosedJaxpr, *, with_rules: bool = False):
        """With rules, a function with a derivative of its own lets through what that rule does; else all that its value depends on."""
        self.edges: list[Edge] = []
        self.after: dict[Node, list[Edge]] = defaultdict(list)
        self.before: dict[Node, list[Edge]] = defaultdict(list)
        self.operations: dict[Node, JaxprEqn] = {}
        self._with_rules, self._num_nodes = with_rules, 0
        self.values: dict[Any, Node] = {}  # those of the outermost program
        self.inputs = self._new(program.jaxpr.invars)
        self.outputs = self._lay_out(program.jaxpr, self.inputs, (), self.values)

    def from_nodes(self, nodes: Iterable[Node]) -> set[Node]:
        """Everything that is computed from them."""
        return _spread(nodes, lambda node: (edge.target for edge in self.after[node]))

    def to_nodes(self, nodes: Iterable[Node]) -> set[Node]:
        """Everything that they are computed from."""
        return _spread(nodes, lambda node: (edge.source for edge in self.before[node]))

    def _new(self, like: Sequence[Any]) -> list[Node]:
        first = self._num_nodes
        self._num_nodes += len(like)
        return list(range(first, self._num_nodes))

    def _link(self, sources: Sequence[Node], targets: Sequence[Node], block: Block | None = None) -> None:
        """An edge for each pair, unless it would begin at a literal number."""
        for source, target in zip(sources, targets, strict=True):
            if source is not None:
                self.edges.append(Edge(source, target, block))
                self.after[source].append(self.edges[-1])
                self.before[target].append(self.edges[-1])

    def _lay_out(
        self, program: Jaxpr, inputs: Sequence[Node], around: tuple[JaxprEqn, ...], values: dict[Any, Node] | None = None
    ) -> list[Node]:
        """Add a program, and return its outputs."""
        values = {} if values is None else values
        values |= {var: node for var, node in zip(program.invars, inputs, strict=True) if node is not None}
        values |= dict(zip(program.constvars, self._new(program.constvars), strict=True))
        for equation in program.eqns:
            given = [None if isinstance(x, Literal) else values.get(x) for x in equation.invars]
            values |= dict(zip(equation.outvars, self._equation(equation, given, (equation, *around)), strict=True))
        return [None if isinstance(x, Literal) else values.get(x) for x in program.outvars]

    def _equation(self, equation: JaxprEqn, inputs: list[Node], around: tuple[JaxprEqn, ...]) -> list[Node]:
        name, outputs = equation.primitive.name, self._new(equation.outvars)
        if name == "scan":
            self._scan(equation.params, inputs, outputs, around)
        elif name == "while":
            self._while(equation.params, inputs, outputs, around)
        elif name == "cond":
            for branch in equation.params["branches"]:
                self._link(self._lay_out(branch.jaxpr, inputs[1:], around), outputs)
            self._link([inputs[0]] * len(outputs), outputs)
        elif self._with_rules and name in ("custom_jvp_call", "custom_vjp_call"):
            self._custom(equation, inputs, outputs, around)
        elif (inner := inner_program(equation)) is not None:
            self._link(self._lay_out(inner.jaxpr, inputs, around), outputs)
        else:
            self._operation(equation, inputs, outputs, around)
        return outputs

    def _scan(self, params: dict, inputs: list[Node], outputs: list[Node], around: tuple[JaxprEqn, ...]) -> None:
        body, begin, end = params["jaxpr"].jaxpr, params["num_consts"], params["num_consts"] + params["num_carry"]
        inside = self._new(inputs)
        self._link(inputs, inside)
        after = self._lay_out(body, inside, around)
        self._link(after[: end - begin], inside[begin:end])
        self._link(after, outputs)

    def _while(self, params: dict, inputs: list[Node], outputs: list[Node], around: tuple[JaxprEqn, ...]) -> None:
        num_asked, num_consts = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        carry = self._new(outputs)
        self._link(inputs[num_consts:], carry)
        after = self._lay_out(params["body_jaxpr"].jaxpr, [*inputs[num_asked:num_consts], *carry], around)
        goes_on = self._lay_out(params["cond_jaxpr"].jaxpr, [*inputs[:num_asked], *carry], around)
        self._link(after, carry)
        self._link(carry, outputs)
        self._link(goes_on * len(outputs), outputs)

    def _custom(self, equation: JaxprEqn, inputs: list[Node], outputs: list[Node], around: tuple[JaxprEqn, ...]) -> None:
        inner = inner_program(equation)
        assert inner is not None
        value, flows = Graph(inner), pairs_of_rule(equation)
        block = Block(f"the rule of {equation.primitive.name.removesuffix('_call')}", around)
        for j, out in enumerate(value.outputs):
            used = value.to_nodes([out])
            for i, given in enumerate(value.inputs):
                if given in used:
                    stops = is_float(equation.invars[i]) and (i, j) not in flows
                    self._link([inputs[i]], [outputs[j]], block if stops else None)

    def _operation(self, equation: JaxprEqn, inputs: list[Node], outputs: list[Node], around: tuple[JaxprEqn, ...]) -> None:
        (node,) = self._new([equation])
        self.operations[node] = equation
        for source in inputs:
            self._link([source], [node])
        for out, target in zip(equation.outvars, outputs, strict=True):
            self._link([node], [target], block_of(equation, out, around))


def _spread(nodes: Iterable[Node], neighbours: Any) -> set[Node]:
    found, waiting = set(nodes), deque(nodes)
    while waiting:
        for node in neighbours(waiting.popleft()):
            if node not in found:
                found.add(node)
                waiting.append(node)
    return found


def inner_program(equation: JaxprEqn) -> ClosedJaxpr | None:
    """The program that an equation runs on its own inputs, if it does just that."""
    found = [x for x in equation.params.values() if isinstance(x, Jaxpr | ClosedJaxpr)]
    if len(found) != 1:
        return None
    program = found[0] if isinstance(found[0], ClosedJaxpr) else ClosedJaxpr(found[0], ())
    ends = (equation.invars, equation.outvars, program.jaxpr.invars, program.jaxpr.outvars)
    shapes = [[struct(x).shape for x in end] for end in ends]
    return program if shapes[:2] == shapes[2:] else None


def struct(x: Any) -> jax.ShapeDtypeStruct:
    """Shape and dtype of a variable of a program."""
    return jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype)


def run(equation: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """What an equation gives for these values of its inputs; literal ones stay."""
    given = {x: value for x, value in zip(equation.invars, values, strict=True) if not isinstance(x, Literal)}
    about = DebugInfo("report", equation.primitive.name, None, None)
    program = Jaxpr((), list(given), equation.outvars, [equation], equation.effects, about)
    return jaxpr_as_fun(ClosedJaxpr(program, ()))(*given.values())


def is_float(x: Any) -> bool:
    """Whether a variable of a program has a derivative."""
    return jnp.issubdtype(x.aval.dtype, jnp.inexact)


def block_of(equation: JaxprEqn, out: Any, around: tuple[JaxprEqn, ...]) -> Block | None:
    """Why an operation has no derivative, if it has none."""
    name = equation.primitive.name
    if not any(is_float(x) for x in equation.invars):
        return None
    if not is_float(out):
        return Block(CHOICES.get(name, name).format(dtype=out.aval.dtype), around)
    return Block(STOPS[name], around) if name in STOPS else None


def pairs_of_rule(equation: JaxprEqn) -> set[tuple[int, int]]:
    """From which inputs to which outputs of a function with a rule of its own a derivative flows."""
    ins, outs = ([i for i, x in enumerate(some) if is_float(x)] for some in (equation.invars, equation.outvars))
    given, back = [struct(x) for x in equation.invars], [struct(equation.outvars[j]) for j in outs]

    def pull(given, back):
        def of_floats(*floats):
            answers = run(equation, [floats[ins.index(i)] if i in ins else x for i, x in enumerate(given)])
            return [answers[j] for j in outs]

        return jax.vjp(of_floats, *[given[i] for i in ins])[1](back)

    graph = Graph(jax.make_jaxpr(pull)(given, back))
    backs = graph.inputs[len(given) :]
    used = [graph.to_nodes([grad]) for grad in graph.outputs]
    return {(i, j) for i, sources in zip(ins, used, strict=True) for j, node in zip(outs, backs, strict=True) if node in sources}
