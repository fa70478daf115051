"""Which operation of a policy ONNX cannot do, where the converter does not say."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from .jaxpr import WRAPPERS
from .program import Port

NUM_EXAMPLES = 16
CLOSE = 1e-3  # far from rounding: of operations alone, on numbers of any size


def blamed(traced: jex.ClosedJaxpr, convert: Any) -> list[str]:
    """The names of operations that fail, or answer something else, when they are converted alone; of each kind the first is tried.

    `convert(function, inputs, outputs)` makes ONNX of a function, as bytes.
    """
    first = {eqn.primitive.name: eqn for eqn in reversed(list(equations(traced.jaxpr)))}
    return sorted(name for name, eqn in first.items() if not does_the_same(eqn, convert))


def equations(jaxpr: jex.Jaxpr) -> Iterator[Any]:
    """All of them, those inside of wrappers too. A loop or a branch is one operation."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in WRAPPERS:
            yield from equations(eqn.params[WRAPPERS[eqn.primitive.name]].jaxpr)
        else:
            yield eqn


def does_the_same(eqn: Any, convert: Any) -> bool:
    """Whether ONNX answers what JAX does, to random inputs of this operation."""
    inputs = [var for var in eqn.invars if not isinstance(var, jex.Literal)]
    if not inputs or any(jnp.issubdtype(var.aval.dtype, jax.dtypes.extended) for var in eqn.invars):
        return True  # a constant by the time that it is converted, as keys are, too

    def alone(*given: ArrayLike) -> list[Array]:
        rest = iter(given)
        args = [var.val if isinstance(var, jex.Literal) else next(rest) for var in eqn.invars]
        outputs = eqn.primitive.bind(*args, **eqn.params)
        return list(outputs) if eqn.primitive.multiple_results else [outputs]

    rng = np.random.default_rng(0)
    try:
        examples = [random_examples(rng, var.aval) for var in inputs]
        want = jax.vmap(alone)(*examples)
        got = run(convert(alone, ports("in", inputs), ports("out", eqn.outvars)), examples)
        return all(np.allclose(*pair, rtol=CLOSE, atol=CLOSE, equal_nan=True) for pair in zip(got, want, strict=True))
    except Exception:  # of many kinds, and all of them mean no
        return False


def ports(kind: str, variables: list[Any]) -> list[Port]:
    return [Port(f"{kind}{i}", tuple(var.aval.shape), np.dtype(var.aval.dtype).name) for i, var in enumerate(variables)]


def random_examples(rng: np.random.Generator, aval: Any) -> np.ndarray:
    numbers = rng.uniform(0.1, 0.9, (NUM_EXAMPLES, *aval.shape))  # where most functions are defined
    return (numbers if np.dtype(aval.dtype).kind == "f" else numbers * 2).astype(aval.dtype)


def run(program: bytes, inputs: list[np.ndarray]) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(program, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip([port.name for port in session.get_inputs()], inputs, strict=True)))
