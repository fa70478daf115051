"""Programs that run once or twice."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, DebugInfo, Jaxpr, jaxpr_as_fun

QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def quick_jit(f: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit` that does not take long to make a program fast."""
    return jax.jit(f, compiler_options=QUICKLY)


def evaluate(program: Jaxpr, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Run a program. Its constants are an argument: among them are the data, which need not be compiled."""
    return jaxpr_as_fun(ClosedJaxpr(program, consts))(*inputs)


def with_outputs(program: Jaxpr, outputs: Sequence[Any]) -> Jaxpr:
    """The same program with others of its variables as outputs."""
    about = DebugInfo("report", "a program", None, None)
    return Jaxpr(program.constvars, program.invars, outputs, program.eqns, program.effects, about)
