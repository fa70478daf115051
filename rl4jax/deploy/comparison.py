"""Whether a policy answers outside of JAX what it does inside, for random inputs."""

import jax
import numpy as np

from .codec import Arrays
from .errors import ExportError
from .onnx_file import cannot_export, first_line
from .policy import DRAW, Policy
from .program import Port, Program

CLOSE = 1e-5  # how far numbers of ONNX may be from those of JAX
HUGE = 1e30  # what says "never", as the logits of what a mask forbids, and is no measure for other numbers
NUM_CHECKED = 256
FORGIVEN = 0.01  # of the examples: where two choices are as good as equal, either may be taken


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
        said = difference({name: np.asarray(answers[name]) for name in names}, {name: wanted[name] for name in names})
        if said:
            raise cannot_export(program, said)


def difference(got: Arrays, want: Arrays) -> str | None:
    """How outputs of ONNX are not those of JAX, if so.

    Of a few examples a choice may fall the other way, and what follows from it is then not compared: the value of another latent, say.
    """
    for name, x in want.items():
        if got[name].shape != x.shape or got[name].dtype != x.dtype:
            return f"{name} is {got[name].dtype} {got[name].shape} in ONNX, but {x.dtype} {x.shape} in JAX"
    wrong = {name: differs(name, got[name], x) for name, x in want.items()}
    fell_otherwise = np.zeros(NUM_CHECKED, bool)
    for name in want:
        if is_choice(got[name]) and is_choice(want[name]):
            fell_otherwise |= wrong[name].any(tuple(range(1, wrong[name].ndim)))
    compared = ~fell_otherwise if fell_otherwise.mean() <= FORGIVEN else np.ones(NUM_CHECKED, bool)
    for name in want:
        found = np.argwhere(wrong[name][compared])
        if len(found):
            first = tuple(found[0])
            return f"{name} differs: ONNX says {got[name][compared][first]}, JAX {want[name][compared][first]}"
    return None


def differs(name: str, got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Where an output is not the same."""
    size, is_float = np.abs(want.astype(np.float64)), want.dtype.kind == "f"
    if not np.isfinite(size).all():
        raise ExportError(f"{name} of this model is not finite, for random inputs. Look at its weights; for what is forbidden use -1e38.")
    atol = CLOSE * size[size < HUGE].max(initial=1.0) if is_float else 0.0
    return ~np.isclose(got.astype(np.float64), want, rtol=CLOSE, atol=atol)


def is_choice(x: np.ndarray) -> bool:
    """Whether it is of integers, or of numbers that are all 0 or 1, but for rounding: one-hot vectors."""
    return x.dtype.kind in "iu" or (x.dtype.kind == "f" and bool((np.minimum(abs(x), abs(x - 1)) < CLOSE).all()))


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
