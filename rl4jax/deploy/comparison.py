"""Whether a policy answers outside of JAX what it does inside, for random inputs."""

import jax
import numpy as np

from .errors import ExportError
from .onnx_file import cannot_export, first_line
from .policy import DRAW, Policy
from .program import Port, Program

CLOSE = 1e-5  # how far numbers of ONNX may be from those of JAX
HUGE = 1e30  # what says "never", as the logits of what a mask forbids, and is no measure for other numbers
NUM_CHECKED = 256


def check(program: Program, policy: Policy) -> None:
    """Raise unless ONNX answers what JAX does, to random inputs: all of it, and what it computes to act."""
    rng = np.random.default_rng(0)
    inputs = {port.name: random_input(rng, port, program.noise.get(port.name)) for port in program.inputs}
    if policy.config["mask"] is not None:
        inputs["mask"][:, [start for start, _ in policy.config["mask"]["heads"]]] = True  # something is allowed
    outputs = jax.jit(jax.vmap(lambda *one: program.step(program.packed, *one)))(*inputs.values())
    wanted = {port.name: np.asarray(x) for port, x in zip(program.outputs, outputs, strict=True)}
    for names in (list(wanted), policy._needed):
        try:
            answers = policy.engine(inputs, names)
        except Exception as error:  # of onnxruntime's own kinds
            raise cannot_export(program, f"onnxruntime said {first_line(error)}") from error
        for name in names:
            said = difference(name, np.asarray(answers[name]), wanted[name])
            if said:
                raise cannot_export(program, said)


def difference(name: str, got: np.ndarray, want: np.ndarray) -> str | None:
    """How an output of ONNX is not that of JAX, if so."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{name} is {got.dtype} {got.shape} in ONNX, but {want.dtype} {want.shape} in JAX"
    size, is_float = np.abs(want.astype(np.float64)), want.dtype.kind == "f"
    if not np.isfinite(size).all():
        raise ExportError(f"{name} of this model is not finite, for random inputs. Look at its weights; for what is forbidden use -1e38.")
    atol = CLOSE * size[size < HUGE].max(initial=1.0) if is_float else 0.0
    wrong = ~np.isclose(got.astype(np.float64), want, rtol=CLOSE, atol=atol)
    # A choice between two that are as good as equal may fall either way.
    if wrong.mean() <= (0.01 if got.dtype.kind in "iu" else 0.0):
        return None
    i = tuple(np.argwhere(wrong)[0])
    return f"{name} differs: ONNX says {got[i]}, JAX {want[i]}"


def random_input(rng: np.random.Generator, port: Port, kind: str | None) -> np.ndarray:
    """Many examples of an input."""
    shape, dtype = (NUM_CHECKED, *port.shape), np.dtype(port.dtype)
    if kind is not None:
        return DRAW[kind](rng, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.8
    if dtype.kind in "iu":
        return rng.integers(0, 256 if dtype == np.uint8 else 2, shape).astype(dtype)  # a picture, or a choice
    return rng.normal(size=shape).astype(dtype)
