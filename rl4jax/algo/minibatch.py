"""Cut a batch `[T, B]` into equally large random parts."""

from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, PRNGKeyArray, PyTree

from rl4jax.core.errors import ConfigError

T = TypeVar("T")


def check_minibatches(num_steps: int, num_envs: int, num_minibatches: int, *, recurrent: bool) -> None:
    """Raise unless the minibatches are equally large."""
    size = num_envs if recurrent else num_steps * num_envs
    if size % num_minibatches:
        what = "num_envs (a recurrent model learns from whole environments)" if recurrent else "num_steps * num_envs"
        fitting = [n for n in range(1, size + 1) if size % n == 0]
        raise ConfigError(f"num_minibatches = {num_minibatches} must divide {what} = {size}. Choose one of {fitting}.")


def pick(batch: T, carry: PyTree, chosen: Int32[Array, " M"]) -> tuple[T, PyTree]:
    """A minibatch: single steps, or with a carry whole columns and what they began with."""
    if carry is None:
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[chosen], batch), None
    return jax.tree.map(lambda x: x[:, chosen], batch), jax.tree.map(lambda x: x[chosen], carry)


def random_order(n: int, key: PRNGKeyArray) -> Int32[Array, " N"]:
    """A random permutation of 0 to n-1.

    Up to 2**16 it sorts random numbers that carry their index in the low bits, which takes a fifth of the time of
    `jax.random.permutation` on a CPU. Two numbers whose at least 16 random bits are equal keep their order: too rare to matter.
    """
    if n > 2**16:
        return jax.random.permutation(key, n)
    low = 2 ** (n - 1).bit_length() - 1
    drawn = jax.random.bits(key, (n,), jnp.uint32) & jnp.uint32(2**32 - 1 - low)
    return (jnp.sort(drawn | jnp.arange(n, dtype=jnp.uint32)) & jnp.uint32(low)).astype(jnp.int32)
