"""One action from a model that gives a distribution."""

import equinox as eqx
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree

from rl4jax.nn.distributions.chance import draw
from rl4jax.nn.model import Model, chance_of, choose, initial_carry
from rl4jax.nn.model_check import check_callable


@eqx.filter_jit
def act(
    model: Model, obs: PyTree, carry: PyTree = None, mask: Bool[Array, " A"] | None = None, *, key: PRNGKeyArray | None = None
) -> tuple[PyTree, PyTree]:
    """An action for one observation and the next carry: the most likely action, or with a key a sampled one."""
    check_callable(model)
    carry = initial_carry(model) if carry is None else carry
    noise = None if key is None else draw(chance_of(model, obs, carry), key)
    action, _, carry = choose(model, obs, carry, mask, noise)
    return action, carry
