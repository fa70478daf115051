"""An environment that shows its critic more than its actor."""

import jax
import jax.numpy as jnp
from gymnasium import spaces

import rl4jax as rl


class Luck(rl.AbstractEnv):
    """Each step of an episode brings its luck, 1 or -1, and half a point for the action 1. Only the critic is shown the luck.

    After 4 steps an episode is cut off, so the value is that of going on for ever: `(luck + p / 2) / (1 - gamma)`.
    """

    @property
    def observation_space(self):
        return spaces.Box(0, 4, (1,))

    @property
    def action_space(self):
        return spaces.Discrete(2)

    def reset(self, key):
        luck = jax.random.rademacher(key, (), jnp.float32)
        return (luck, jnp.float32(0)), jnp.zeros(1)

    def step(self, state, action, key):
        luck, t = state
        reward = luck + 0.5 * action.astype(jnp.float32)
        return (luck, t + 1), rl.Step((t + 1)[None], reward, terminated=jnp.array(False), truncated=t >= 3)

    def privileged(self, state):
        luck, _ = state
        return {"luck": luck, "is_good": luck > 0}
