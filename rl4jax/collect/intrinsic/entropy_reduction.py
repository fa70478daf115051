"""A bonus for becoming surer: the scouting reward of ROA-Star (Huang et al. 2023)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rl4jax.core.errors import ShapeError, is_count, require


class EntropyReduction(eqx.Module):
    """`max(previous entropy - entropy, 0)`: pays for what made a belief surer, such as one about the opponent's strategy.

    It remembers the last entropy of each environment, so that rollouts may be cut anywhere.
    """

    previous: Float[Array, " B"]  # minus infinity before the first rollout: no reward

    def __init__(self, num_envs: int):
        require(is_count(num_envs), "EntropyReduction: num_envs", num_envs, "a positive integer")
        self.previous = jnp.full(num_envs, -jnp.inf)

    def reward_from_entropy(
        self, entropy: Float[Array, "T B"], is_first: Bool[Array, "T B"]
    ) -> tuple[Float[Array, "T B"], "EntropyReduction"]:
        """The bonus of each step, and what to go on with. 0 at the first step of an episode: nothing came before."""
        if entropy.shape[1:] != self.previous.shape or is_first.shape != entropy.shape:
            raise ShapeError(
                f"EntropyReduction.reward_from_entropy: entropy has shape {entropy.shape} and is_first {is_first.shape}; both must be "
                f"[T, B] with the B = {len(self.previous)} it was made for."
            )
        entropy = jax.lax.stop_gradient(entropy)
        before = jnp.concatenate([self.previous[None], entropy[:-1]])
        bonus = jnp.where(is_first, 0.0, jnp.maximum(before - entropy, 0.0))
        return bonus, eqx.tree_at(lambda explorer: explorer.previous, self, entropy[-1])
