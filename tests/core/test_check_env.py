import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl


@pytest.mark.parametrize("name", rl.envs.BUILT_IN)
def test_every_built_in_environment_passes(name):
    rl.check_env(rl.make(name), num_steps=60)


class Whole(rl.AbstractEnv):
    """Integer actions in a Box, a bool observation and a key in the state: unusual and legal."""

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(0, 1, (), np.bool_)

    @property
    def action_space(self):
        return gymnasium.spaces.Box(0, 5, (2,), np.int32)

    def reset(self, key):
        return key, jnp.array(False)

    def step(self, state, action, key):
        state, draw = jax.random.split(state)
        flag = jax.random.bernoulli(draw)
        return state, rl.Step(flag, action.sum().astype(jnp.float32), flag, jnp.array(False))


def test_unusual_environments_pass():
    with jax.debug_key_reuse(False):  # it does not know that `where` hands keys on
        rl.check_env(Whole())
        rl.check_env(Whole(), num_steps=1)
    rl.check_env(rl.envs.CartPole(), key=jax.random.key(0, impl="rbg"), num_steps=5)


class Wrong(rl.AbstractWrapper):
    """GridWorld with one thing wrong."""

    fault: str = eqx.field(static=True)

    def reset(self, key):
        state, obs = self.env.reset(key)
        obs = obs + 5 if self.fault == "first obs" else obs
        return state, obs * np.float32(np.random.uniform(0.5, 1)) if self.fault == "impure reset" else obs

    def step(self, state, action, key):
        state, step = self.env.step(state, action, key)
        obs, reward = step.obs, step.reward
        if self.fault == "impure state":
            state = eqx.tree_at(lambda s: s.t, state, state.t + np.int32(np.random.randint(1000)))
        if self.fault == "impure step":
            reward = reward + jnp.float32(np.random.uniform())
        if self.fault == "reward":
            reward = jnp.where(state.t == 7, jnp.nan, reward)
        if self.fault == "outside":
            obs = jnp.where(state.t == 7, obs + 5, obs)
        return state, rl.Step(obs, reward, step.terminated, step.truncated)

    def action_mask(self, state):
        mask = self.env.action_mask(state)
        if self.fault == "mask":
            return jnp.where(state.t == 7, False, mask)
        return mask[:3] if self.fault == "mask shape" else mask

    def render(self, state):
        return np.zeros((3, 3)) if self.fault == "render" else self.env.render(state)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("impure reset", r"Wrong.reset gives other numbers for the same key"),
        ("impure step", r"Wrong.step gives other numbers for the same key.*np.random"),
        ("impure state", r"Wrong.step gives other numbers for the same key"),
        ("first obs", r"the first observation, .*, is not in observation_space"),
        ("reward", r"reward at step \d+ is nan; it must be finite"),
        ("outside", r"the observation at step \d+, .*, is not in observation_space"),
        ("mask", r"action_mask at step \d+ is \[False False False False\], which allows nothing"),
        ("mask shape", r"action_mask returned bool\[3\], but a mask of its action_space must be bool\[4\]"),
        ("render", r"Wrong.render returned ndarray \(3, 3\); it must be np.uint8 \[H, W, 3\]"),
    ],
)
def test_what_is_wrong_is_named(fault, message):
    with pytest.raises(rl.Rl4JaxError, match=message):
        rl.check_env(Wrong(rl.envs.GridWorld(), fault), num_steps=60)
