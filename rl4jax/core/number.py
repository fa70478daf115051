"""The type of a constant: of physics, or of a config."""

from typing import Any

import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array

Number = float | int | Array  # an array when it is batched: `jax.vmap` over gravity or learning rates, say


def is_concrete(x: object) -> bool:
    """Whether a number can be looked at: it is not a value inside a traced program."""
    return not isinstance(x, Tracer)


def in_single(x: Any) -> Any:
    """Half precision as float32: sums of probabilities need it, so does the logit of what is forbidden; squares of gradients overflow."""
    return x.astype(jnp.float32) if getattr(x, "dtype", None) in (jnp.float16, jnp.bfloat16) else x
