"""What the tests of Dreamer share: a small agent whose last layers are not zero, and stretches of random steps."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp

import rl4jax as rl
from rl4jax.algo import dreamer

SIZE = dreamer.Size(deter=16, hidden=8, units=8, classes=4, depth=2, groups=3, num_blocks=4, num_bins=15)
LENGTH, NUM = 4, 3


def noisy(tree, seed, scale=0.1):
    """The same with a little noise on every parameter: where something is zero, nothing can be told apart."""
    params, rest = eqx.partition(tree, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    changed = [x + scale * jax.random.normal(key, x.shape) for x, key in zip(leaves, keys, strict=True)]
    return eqx.combine(jax.tree.unflatten(structure, changed), rest)


def random_moments(agent, env, length=LENGTH, seed=1):
    """Stretches `[1 + length, NUM]` with ends and beginnings anywhere."""
    like, structure = jax.tree.flatten(dreamer.moment_like(agent, env))
    keys = jax.random.split(jax.random.key(seed), len(like))

    def some(x, key):
        shape = (1 + length, NUM, *x.shape)
        if jnp.issubdtype(x.dtype, jnp.floating):
            return jax.random.normal(key, shape)
        if x.dtype == jnp.uint8 and x.ndim == 3:
            return jax.random.randint(key, shape, 0, 255).astype(jnp.uint8)
        return jax.random.bernoulli(key, 0.3, shape).astype(x.dtype)

    return jax.tree.unflatten(structure, [some(x, key) for x, key in zip(like, keys, strict=True)])


@functools.cache
def played(representation="decoder", make=rl.envs.CartPole):
    """Such an agent, and such stretches."""
    env = rl.VecEnv(make(), num_envs=2)
    agent = noisy(dreamer.Agent(env, SIZE, representation, key=jax.random.key(0)), seed=2)
    return agent, random_moments(agent, env)
