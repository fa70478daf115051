"""What the gradient of a loss does to each parameter of a model, and if it does nothing, why.

The loss is traced twice: as a program, and with its pullback as another one. A parameter that the first does not use is disconnected; one
whose gradient the second computes without what is pulled back is blocked. Where and why is then looked for in the first.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from rl4jax.core.contract import describe
from rl4jax.core.errors import ShapeError, require
from rl4jax.core.leaf_names import leaves_by_name

from .blocked import causes
from .findings import Cause, Gradient, Report, Status
from .graph import Graph
from .origin import Search, all_zero, not_finite
from .quick import evaluate, quick_jit
from .source import called, place_of, rules_in

MOST_CAUSES = 3


def report(loss_fn: Callable[..., Any], model: Any, /, *args: Any, **kwargs: Any) -> Report:
    """The gradient of `loss_fn(model, *args, **kwargs)`, a loss or `(loss, ...)`, with respect to each parameter of the model.

    Parameters are the leaves of the model that are arrays of floats. The loss must be one that `jax.jit` can trace.

    >>> def loss(weights, x):
    ...     return jnp.square(weights["a"] @ x + jnp.argmax(weights["b"]))
    >>> weights = {"a": jnp.array([1.0, 2.0]), "b": jnp.array([1.0, 2.0]), "c": jnp.zeros(())}
    >>> [(gradient.name, gradient.status) for gradient in report(loss, weights, jnp.array([0.5, 0.5]))]
    [('a', 'ok'), ('b', 'blocked'), ('c', 'disconnected')]
    """
    leaves, treedef = leaves_by_name(model)
    leaves = {name or "model": leaf for name, leaf in leaves.items()}  # a model may be a single array
    params = {name: leaf for name, leaf in leaves.items() if eqx.is_inexact_array(leaf)}
    require(bool(params), "report: model", type(model).__name__, "a model with parameters", "None of its leaves is an array of floats.")

    def of_values(*values):
        given = leaves | dict(zip(params, values, strict=True))
        answer = loss_fn(jax.tree.unflatten(treedef, given.values()), *args, **kwargs)
        return check_loss(answer[0] if isinstance(answer, tuple) else answer)

    def pulled(*values_and_back):
        *values, back = values_and_back
        loss, pull = jax.vjp(of_values, *values)
        return [loss, *pull(back)]

    forward = jax.make_jaxpr(of_values)(*params.values())
    back = jnp.ones((), forward.out_avals[0].dtype)
    return Examination(forward, jax.make_jaxpr(pulled)(*params.values(), back), params, back).report()


def check_loss(x: Any) -> Any:
    """The loss, once it is known to be one."""
    if not eqx.is_array(x) or x.shape != () or not jnp.issubdtype(x.dtype, jnp.floating):
        fix = "Take the mean over the batch; more may be returned after it: (loss, metrics)."
        raise ShapeError(f"report: loss_fn gave {describe(x)}; it must give one float, or a tuple that begins with one. {fix}")
    return x


class Examination:
    """The loss as a program, the loss and its gradients as another one, and what is found out from both."""

    def __init__(self, forward: ClosedJaxpr, backward: ClosedJaxpr, params: dict[str, Any], back: Any):
        self.forward, self.backward, self.params, self.inputs = forward, backward, params, [*params.values(), back]
        self.loss, *grads = jax.device_get(quick_jit(functools.partial(evaluate, backward.jaxpr))(backward.consts, self.inputs))
        self.norms = [length(grad) for grad in grads]
        self.is_finite = bool(np.isfinite(self.loss))

    def report(self) -> Report:
        """A row for each parameter."""
        total = math.hypot(*self.norms)
        rows = [
            Gradient(name, x.shape, norm, (norm / total) ** 2 if total else 0.0, self.statuses[i], self.causes(i))
            for i, ((name, x), norm) in enumerate(zip(self.params.items(), self.norms, strict=True))
        ]
        return Report(float(self.loss), total, tuple(rows), () if self.is_finite else self.of_loss)

    @functools.cached_property
    def statuses(self) -> list[Status]:
        """What each gradient is."""
        forward, backward = Graph(self.forward), Graph(self.backward)
        used = forward.to_nodes(forward.outputs[:1])
        flows = backward.from_nodes(backward.inputs[-1:])

        def status(i: int) -> Status:
            if self.norms[i] != 0:  # whatever the way: a rule of somebody's own may make a gradient of nothing
                return "ok" if math.isfinite(self.norms[i]) else "non-finite"
            if forward.inputs[i] not in used:
                return "disconnected"
            return "zero" if backward.outputs[i + 1] in flows else "blocked"

        return [status(i) for i in range(len(self.params))]

    def causes(self, i: int) -> tuple[Cause, ...]:
        """Why the gradient of the i-th parameter is what it is."""
        if self.statuses[i] == "blocked":
            blocks = causes(self.explained, self.explained.inputs[i], self.explained.outputs[0])
            found = dict.fromkeys(Cause(block.cause, place_of(block.equations)) for block in blocks)
            return tuple(found)[:MOST_CAUSES]
        if self.statuses[i] == "zero":
            return self.found_by(self.zeros, i + 1, "vanishes in {operation}")
        if self.statuses[i] == "non-finite":
            what = "{number} in the gradient of a finite loss, from {operation}"
            return self.found_by(self.numbers, i + 1, what) if self.is_finite else self.of_loss
        return ()

    @property
    def of_loss(self) -> tuple[Cause, ...]:
        """Why the loss is not finite."""
        return self.found_by(self.numbers, 0, "{number} in the loss, from {operation}")

    def found_by(self, search: Search, out: int, what: str) -> tuple[Cause, ...]:
        """The cause that a search for the origin of an output finds."""
        origin = search.origin_of(out)
        if origin is None:
            return ()
        number = "nan" if search.how_wrong is not_finite and origin.wrong == 2 else "inf"
        if origin.equations:
            operation = called(origin.equations, self.rules)
            return (Cause(what.format(number=number, operation=operation), place_of(origin.equations)),)
        names = dict(zip(search.program.jaxpr.invars, self.params, strict=False))
        return (Cause(f"{number} in the parameter {names[origin.given]}" if origin.given in names else f"{number} in the data", ""),)

    @functools.cached_property
    def explained(self) -> Graph:
        """The loss, with the rules that functions have for their derivatives."""
        return Graph(self.forward, with_rules=True)

    @functools.cached_property
    def rules(self) -> dict[str, str]:
        """The functions with rules that the loss calls; from the same program as what is looked for, so that all lines are the same."""
        return rules_in(self.backward.jaxpr)

    @functools.cached_property
    def zeros(self) -> Search:
        """From what is pulled back to gradients that are zero."""
        outs = [i + 1 for i, status in enumerate(self.statuses) if status == "zero"]
        return Search(self.backward, self.inputs, outs, all_zero, concerned=[*(False for _ in self.params), True])

    @functools.cached_property
    def numbers(self) -> Search:
        """To a loss that is not finite, or to such gradients."""
        outs = [i + 1 for i, status in enumerate(self.statuses) if status == "non-finite"] if self.is_finite else [0]
        return Search(self.backward, self.inputs, outs, not_finite)


def length(x: Any) -> float:
    """The Euclidean norm in double precision."""
    return float(np.linalg.norm(np.asarray(x, np.complex128 if np.iscomplexobj(x) else np.float64).ravel()))
