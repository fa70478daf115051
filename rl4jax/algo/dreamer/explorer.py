"""An agent that now and then acts as if it had learned nothing, so that it also sees what it would never choose."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from rl4jax.nn.distributions.chance import Chance

from .actions import distribution
from .agent import Agent, Memory


class Explorer(eqx.Module):
    """Plays for the agent: in this share of the steps choices are uniform, among those allowed, and numbers spread around the middle.

    An entropy bonus explores where that costs little, and makes all of the policy soft. This does neither.
    """

    agent: Agent
    share: Float[Array, ""]

    def initial_carry(self) -> Memory:
        """That of the agent."""
        return self.agent.initial_carry()

    def __call__(self, obs: PyTree, carry: Memory) -> tuple:
        """What the agent says of an observation."""
        return self.agent(obs, carry)

    @property
    def chance(self) -> PyTree[Chance]:
        """What is random in one step: what is for the agent, and whether to explore."""
        return self.agent.chance, Chance("uniform", ())

    def act(self, obs: PyTree, carry: Memory, mask: Bool[Array, " A"] | None, noise: PyTree[Array]) -> tuple:
        """An action, its distribution, the value and the next memory."""
        (latent_noise, action_noise), chance = noise
        latent = self.agent.see(obs, carry, latent_noise)
        outputs = jnp.where(chance < self.share, 0.0, self.agent.policy(latent.features))
        pi = distribution(self.agent.action_space.space, outputs).masked(mask)
        action = pi.sample_from(action_noise)
        return action, pi, self.agent.value_of(latent.features).mean(), (latent, self.agent.as_vector(action))
