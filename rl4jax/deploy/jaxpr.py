"""A traced function, opened up: so that jax2onnx meets primitives only, and none that it cannot convert for batches of any size."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.extend.core as jex
from jax import lax
from jaxtyping import Array

# What only wraps other operations, and the parameter that holds them.
WRAPPERS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}


def as_function(traced: jex.ClosedJaxpr) -> Callable[..., list[Any]]:
    """A function that does the same, of flat arguments."""
    return lambda *inputs: evaluate(traced.jaxpr, traced.consts, inputs)


def evaluate(jaxpr: jex.Jaxpr, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """One operation after the other. What comes out may be a plain number, where nothing depends on the inputs."""
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True))

    def read(var: Any) -> Any:
        return var.val if isinstance(var, jex.Literal) else values[var]

    for eqn in jaxpr.eqns:
        args = [read(var) for var in eqn.invars]
        name = eqn.primitive.name
        if name in WRAPPERS:
            inner = eqn.params[WRAPPERS[name]]
            outputs = evaluate(inner.jaxpr, inner.consts, args)
        elif name == "pad" and not any(interior for _, _, interior in eqn.params["padding_config"]):
            outputs = [padded(args[0], args[1], eqn.params["padding_config"])]
        else:
            outputs = eqn.primitive.bind(*args, **eqn.params)
            outputs = outputs if eqn.primitive.multiple_results else [outputs]
        values.update(zip(eqn.outvars, outputs, strict=True))
    return [read(var) for var in jaxpr.outvars]


def padded(x: Any, value: Any, config: Sequence[Sequence[Any]]) -> Array:
    """`lax.pad` by joining: jax2onnx 0.17 cannot convert the other for a batch of any size."""
    for axis, (low, high, _) in enumerate(config):
        low, high = int(low), int(high)
        x = lax.slice_in_dim(x, max(-low, 0), x.shape[axis] - max(-high, 0), axis=axis)
        for size, before in ((low, True), (high, False)):
            if size > 0:
                edge = lax.broadcast(lax.convert_element_type(value, x.dtype), (*x.shape[:axis], size, *x.shape[axis + 1 :]))
                x = lax.concatenate([edge, x] if before else [x, edge], axis)
    return x


def operations(jaxpr: jex.Jaxpr) -> set[str]:
    """The names of all operations, those inside of others too."""
    names = set()
    for eqn in jaxpr.eqns:
        inner = [part for param in eqn.params.values() for part in (param if isinstance(param, tuple | list) else (param,))]
        for part in inner:
            if isinstance(part, jex.ClosedJaxpr | jex.Jaxpr):
                names |= operations(part.jaxpr if isinstance(part, jex.ClosedJaxpr) else part)
        if eqn.primitive.name not in WRAPPERS:
            names.add(eqn.primitive.name)
    return names
