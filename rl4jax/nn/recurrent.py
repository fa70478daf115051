"""What recurrent cores have in common: a step of memory, and whole sequences of it."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from rl4jax.core.errors import ShapeError, is_count, require

from .input_check import check_input
from .orthogonal import orthogonal_weights

# Of any shape, since a wrong one is refused with a message of ours.
Input = Float[Array, "..."]  # [D]
Inputs = Float[Array, "..."]  # [T, *B, D]
IsFirst = Bool[Array, "..."] | None  # [T, *B]


class AbstractCore(eqx.Module):
    """A memory: `core(x, carry) -> (features, carry)` for one step, `core.scan(xs, carry, is_first)` for a sequence of them."""

    weight_ih: eqx.AbstractVar[Float[Array, "D G"]]

    @abc.abstractmethod
    def initial_carry(self) -> PyTree:
        """The memory at the start of an episode: zeros."""

    @abc.abstractmethod
    def __call__(self, x: Input, carry: PyTree) -> tuple[Float[Array, " H"], PyTree]: ...

    @abc.abstractmethod
    def carries(self, xs: Float[Array, "T N D"], carry: PyTree, is_first: Bool[Array, "T N"] | None) -> PyTree:
        """The memories `[T, N, ...]` after each step. The features are the first of their arrays."""

    def scan(self, xs: Inputs, carry: PyTree = None, is_first: IsFirst = None) -> tuple[Float[Array, "T *B H"], PyTree]:
        """The features of every step of `xs` `[T, *B, D]`, and the memory `[*B, ...]` after the last. Without a carry it is fresh.

        Where `is_first` `[T, *B]`, the memory begins anew before the step. Give it a batch as it is, time first: `jax.vmap` also works,
        but then the gradient of the weights is computed for each sequence and summed, which takes longer.
        """
        carries = self.along(xs, carry, is_first)
        return jax.tree.leaves(carries)[0], jax.tree.map(lambda x: x[-1], carries)

    def along(self, xs: Inputs, carry: PyTree = None, is_first: IsFirst = None) -> PyTree:
        """The memory `[T, *B, ...]` after every step."""
        batch = xs.shape[1:-1]
        if xs.ndim < 2 or len(xs) == 0 or xs.shape[-1] != len(self.weight_ih):
            raise ShapeError(
                f"{type(self).__name__}: xs has shape {xs.shape}; it must be [T, {len(self.weight_ih)}], or [T, B, ...] of a batch."
            )
        if is_first is not None and is_first.shape != xs.shape[:-1]:
            raise ShapeError(f"{type(self).__name__}: is_first has shape {is_first.shape}; for xs {xs.shape} it must be {xs.shape[:-1]}.")
        if carry is None:
            carry = jax.tree.map(lambda x: jnp.broadcast_to(x, (*batch, *x.shape)), self.initial_carry())
        self.check_carry(carry, batch)
        flat = jax.tree.map(lambda x: x.reshape(-1, x.shape[-1]), carry)
        first = None if is_first is None else is_first.reshape(len(xs), -1)
        carries = self.carries(xs.reshape(len(xs), -1, xs.shape[-1]), flat, first)
        return jax.tree.map(lambda x: x.reshape(len(xs), *batch, x.shape[-1]), carries)

    def check_step(self, x: Input, carry: PyTree) -> None:
        """Raise unless these are an input and a memory of one step."""
        check_input(f"{type(self).__name__}: x", x, len(self.weight_ih))
        self.check_carry(carry)

    def check_carry(self, carry: PyTree, batch: tuple[int, ...] = ()) -> None:
        """Raise unless this is a memory, or a batch of them."""
        wanted = jax.tree.map(lambda x: (*batch, *x.shape), jax.eval_shape(self.initial_carry))
        if jax.tree.map(jnp.shape, carry) != wanted:
            many = (
                f" for a batch {batch}, one for each sequence. Leave it out to begin with zeros."
                if batch
                else ", as initial_carry() gives it."
            )
            raise ShapeError(f"{type(self).__name__}: carry has shape {jax.tree.map(jnp.shape, carry)}; it must be {wanted}{many}")


def check_sizes(name: str, d_in: int, d_hidden: int) -> None:
    """Raise unless both are positive integers."""
    require(is_count(d_in), f"{name}: d_in", d_in, "a positive integer")
    require(is_count(d_hidden), f"{name}: d_hidden", d_hidden, "a positive integer")


def gate_weights(d_in: int, d_out: int, num_gates: int, *, key: PRNGKeyArray) -> Float[Array, "I G"]:
    """Orthogonal weights of each gate, side by side."""
    init = jax.vmap(lambda k: orthogonal_weights(k, (d_out, d_in), 1.0, column_axis=0))
    return init(jax.random.split(key, num_gates)).reshape(-1, d_in).T


def no_memory(size: int, weight: Float[Array, "..."]) -> Float[Array, " H"]:
    """Zeros, as precise as the weights but no less than float32: observations are, and what they lead to is then too."""
    return jnp.zeros(size, jnp.promote_types(weight.dtype, jnp.float32))


def project(xs: Float[Array, "T N D"], weight: Float[Array, "D G"]) -> Float[Array, "T N G"]:
    """`xs @ weight` for all steps at once. As one matrix: with two axes in front XLA turns the gradient around before it sums it."""
    return (xs.reshape(-1, xs.shape[-1]) @ weight).reshape(*xs.shape[:-1], weight.shape[-1])


def unless_first(is_first: Bool[Array, "*T N"] | None, memory: Float[Array, "*T N H"]) -> Float[Array, "*T N H"]:
    """The memory, or zeros where an episode begins. Of a gradient likewise: none flows from one episode to the one before."""
    return memory if is_first is None else jnp.where(is_first[..., None], 0.0, memory)


def before_each(first: Float[Array, "N H"], after: Float[Array, "T N H"], is_first: Bool[Array, "T N"] | None) -> Float[Array, "T N H"]:
    """The memories that the steps began with, from those that they left behind."""
    return unless_first(is_first, jnp.concatenate([first[None], after[:-1]]))
