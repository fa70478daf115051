"""What the tests of the algorithms share: small networks, a small loop, an environment that never ends by itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

import rl4jax as rl
from rl4jax import ppo


def started(env, cfg, seed=0, opt=None, **network):
    """A state of PPO before its first update."""
    model_key, key = jax.random.split(jax.random.key(seed))
    model = rl.nn.ActorCritic(env, key=model_key, **({"hidden": (16,)} | network))
    return ppo.init(model, env, cfg, key=key, opt=opt)


class Loop(rl.AbstractEnv):
    """Reward 1 for ever, watched for `max_steps` steps at a time: the value is 1 / (1 - gamma), not the sum of what is watched."""

    max_steps: int = 10

    @property
    def observation_space(self):
        return spaces.Box(-1, 1, (1,), np.float32)

    @property
    def action_space(self):
        return spaces.Discrete(2)

    def reset(self, key):
        return jnp.int32(0), jnp.ones(1)

    def step(self, state, action, key):
        state = state + 1
        return state, rl.Step(jnp.ones(1), jnp.float32(1), jnp.array(False), state >= self.max_steps)


class Mixed(rl.AbstractEnv):
    """Actions and observations of every kind at once, masks included; the reward is for going along with the observation."""

    length: int = eqx.field(default=6, static=True)

    @property
    def observation_space(self):
        return spaces.Dict(picture=spaces.Box(0, 255, (5, 5, 1), np.uint8), sign=spaces.Box(-1, 1, (1,), np.float32), t=spaces.Discrete(8))

    @property
    def action_space(self):
        return spaces.Dict(move=spaces.MultiDiscrete([2, 3]), pair=spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)]))

    def action_mask(self, state):
        heads = [jnp.ones(2, bool), jnp.array([True, True, False]), jnp.arange(3) <= state[0], jnp.ones(2, bool)]
        return jnp.concatenate(heads)

    def _obs(self, state):
        t, sign = state
        return {"picture": jnp.full((5, 5, 1), 50 * t, jnp.uint8), "sign": sign, "t": t}

    def reset(self, key):
        state = (jnp.int32(0), jax.random.rademacher(key, (1,), jnp.float32))
        return state, self._obs(state)

    def step(self, state, action, key):
        t, sign = state
        reward = jnp.where(sign[0] > 0, action["move"][0], 1 - action["move"][0]) + sign[0] * action["pair"][1].mean()
        state = (t + 1, sign)
        return state, rl.Step(self._obs(state), reward.astype(jnp.float32), t + 1 >= self.length, jnp.array(False))


PROBES = {
    "ProbeObservation": [[-1.0], [1.0]],
    "ProbeContext": [[-1.0], [1.0]],
    "ProbeDiscount": [[0.0], [1.0]],
}  # what is seen there; elsewhere 0


class AnyOf(rl.AbstractEnv):
    """One of several probes by its number, so that they share a compiled program."""

    number: jax.Array
    probes: tuple

    @property
    def observation_space(self):
        return self.probes[0].observation_space

    @property
    def action_space(self):
        return self.probes[0].action_space

    def reset(self, key):
        return jax.lax.switch(self.number, [probe.reset for probe in self.probes], key)

    def step(self, state, action, key):
        return jax.lax.switch(self.number, [probe.step for probe in self.probes], state, action, key)
