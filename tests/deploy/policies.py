"""A policy of every kind that can be trained, with weights that are not near zero, and the environment it is for."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

import rl4jax as rl
from examples.hideout import Hideout, Seeker
from rl4jax import dreamer
from rl4jax.core.running_stats import RunningStats
from rl4jax.nn.model import Normalized
from rl4jax.nn.q_policy import QPolicy
from tests.nn.luck import Luck

SIZE = dreamer.Size(deter=16, hidden=8, units=8, classes=4, depth=2, groups=3, num_blocks=4, num_bins=15)


class Toy(rl.AbstractEnv):
    """Observations and actions with parts; every step is rewarded for the numbers in the action, and episodes have eight."""

    @property
    def observation_space(self):
        parts = {"picture": spaces.Box(0, 255, (16, 16, 3), np.uint8), "kind": spaces.Discrete(4), "pair": spaces.MultiBinary(2)}
        return spaces.Dict(parts | {"vector": spaces.Tuple((spaces.Box(-1, 1, (3,)), spaces.Box(-1, 1, ())))})

    @property
    def action_space(self):
        return spaces.Dict({"gear": spaces.Discrete(3), "steer": spaces.Box(-0.5, 0.5, (2,)), "two": spaces.MultiDiscrete([2, 4])})

    def reset(self, key):
        return jnp.int32(0), self.seen(key)

    def step(self, state, action, key):
        reward = action["steer"].sum() + action["gear"]
        return state + 1, rl.Step(self.seen(key), reward, terminated=state >= 7, truncated=jnp.array(False))

    def seen(self, key):
        keys = jax.random.split(key, 5)
        vector = jax.random.uniform(keys[3], (3,), minval=-1), jax.random.uniform(keys[4], (), minval=-1)
        return {
            "picture": jax.random.randint(keys[0], (16, 16, 3), 0, 256).astype(jnp.uint8),
            "kind": jax.random.randint(keys[1], (), 0, 4),
            "pair": jax.random.bernoulli(keys[2], 0.5, (2,)).astype(jnp.int8),
            "vector": vector,
        }


class Elsewhere(rl.AbstractEnv):
    """Observations that count from elsewhere, in a graph; every step is rewarded for the gear that the road wants, and episodes have eight."""

    observation_space = spaces.Dict({"road": spaces.Discrete(4, start=5), "pair": spaces.MultiDiscrete([2, 3], start=[1, -1])})
    action_space = spaces.Discrete(4)

    def reset(self, key):
        obs = self.seen(key)
        return (jnp.int32(0), obs["road"]), obs

    def step(self, state, action, key):
        t, road = state
        obs = self.seen(key)
        reward = jnp.float32(1) + (action == road - 5)
        return (t + 1, obs["road"]), rl.Step(obs, reward, terminated=t >= 7, truncated=jnp.array(False))

    def seen(self, key):
        road_key, pair_key = jax.random.split(key)
        pair = jax.random.randint(pair_key, (2,), jnp.array([1, -1]), jnp.array([3, 2]))
        return {"road": jax.random.randint(road_key, (), 5, 9), "pair": pair}


def actor_critic(env, **how):
    return rl.nn.ActorCritic(env, key=jax.random.key(0), hidden=(16, 16), **how)


def normalized(env):
    stats = RunningStats.like(jnp.zeros(4)).update(jax.random.normal(jax.random.key(2), (100, 4)) * jnp.array([1.0, 3.0, 0.1, 2.0]))
    return Normalized(actor_critic(env), stats)


KINDS = {  # the environment, the model, and whether there are masks
    "choice": (rl.envs.CartPole(), actor_critic, False),
    "normalised": (rl.envs.CartPole(), normalized, False),
    "masked choice": (rl.envs.GridWorld(), actor_critic, True),
    "masked choices": (rl.envs.MultiDiscreteNav(), actor_critic, True),
    "numbers": (rl.envs.Pendulum(), actor_critic, False),
    "squashed numbers": (rl.envs.Pendulum(), lambda env: actor_critic(env, squash=True, log_std="model"), False),
    "parts": (Toy(), actor_critic, False),
    "parts in order": (Hideout(), lambda env: Seeker(True, key=jax.random.key(0)), False),
    "counted from elsewhere": (Elsewhere(), actor_critic, False),
    "pixels": (rl.envs.Catch(), actor_critic, False),
    "gru": (rl.envs.Memory(), lambda env: actor_critic(env, core="gru"), False),
    "gru, masked choice": (rl.envs.GridWorld(), lambda env: actor_critic(env, core="gru"), True),
    "lstm": (rl.envs.CartPoleNoVel(), lambda env: actor_critic(env, core="lstm", norm="layer", shared=True), False),
    "privileged": (Luck(), lambda env: rl.nn.PrivilegedActorCritic(env, key=jax.random.key(0), hidden=(16,)), False),
    "values": (rl.envs.CartPole(), lambda env: QPolicy(rl.nn.QNetwork(env, key=jax.random.key(0), hidden=(16,)), jnp.float32(0.1)), False),
    "masked values": (
        rl.envs.GridWorld(),
        lambda env: QPolicy(rl.nn.QNetwork(env, key=jax.random.key(0), hidden=(16,)), jnp.float32(0.1)),
        True,
    ),
    "dreamer, choice": (rl.envs.CartPole(), lambda env: dreamer.Agent(env, SIZE, key=jax.random.key(0)), False),
    "dreamer, numbers": (rl.envs.Pendulum(), lambda env: dreamer.Agent(env, SIZE, key=jax.random.key(0)), False),
    "dreamer, masked choice": (rl.envs.GridWorld(), lambda env: dreamer.Agent(env, SIZE, key=jax.random.key(0)), True),
    "dreamer, choices": (rl.envs.MultiDiscreteNav(), lambda env: dreamer.Agent(env, SIZE, key=jax.random.key(0)), False),
    "dreamer, masked choices": (rl.envs.MultiDiscreteNav(), lambda env: dreamer.Agent(env, SIZE, key=jax.random.key(0)), True),
    "dreamer, pixels": (rl.envs.Catch(16, 16), lambda env: dreamer.Agent(env, SIZE, "barlow", key=jax.random.key(0)), False),
}


def build(kind):
    """The model, the vector environment, and whether there are masks."""
    env, make, masked = KINDS[kind]
    env = rl.VecEnv(env, 100)
    keys = iter(jax.random.split(jax.random.key(1), 1000))

    def shaken(x):
        learned = eqx.is_inexact_array(x) and x.ndim >= 2 and bool(x.any())
        return x + 0.2 * jax.random.normal(next(keys), x.shape) / np.sqrt(x.shape[-1]) if learned else x

    return jax.tree.map(shaken, make(env)), env, masked
