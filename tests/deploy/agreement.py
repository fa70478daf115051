"""Whether a bundle does what its model does, on each runtime: for random observations, and in whole episodes."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax import deploy
from rl4jax.core.spaces import clip_action, mask_heads
from rl4jax.deploy.program import parameters
from rl4jax.nn.model import decide, initial_carry

NUM = 10_000


def random_obs(space, rng):
    """Of the whole space, and beyond bounds that are there for looks."""
    if hasattr(space, "spaces"):
        parts = space.spaces.items() if isinstance(space.spaces, dict) else enumerate(space.spaces)
        drawn = {name: random_obs(part, rng) for name, part in parts}
        return drawn if isinstance(space.spaces, dict) else tuple(drawn.values())
    if space.dtype.kind == "f":
        return rng.normal(size=(NUM, *space.shape)).astype(np.float32)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return space.start + rng.integers(0, space.n if isinstance(space, spaces.Discrete) else space.nvec, (NUM, *space.shape))
    return rng.integers(0, 256 if space.dtype == np.uint8 else 2, (NUM, *space.shape)).astype(space.dtype)


def random_masks(space, rng):
    masks = rng.random((NUM, int(spaces.flatdim(space)))) < 0.5
    masks[:, [head.start for head in mask_heads(space)]] = True  # something is allowed in each head
    return masks


def assert_agree(model, env, masked, folder):
    """On random observations, memories and masks: what is said within 1e-5, and what is chosen."""
    rng = np.random.default_rng(0)
    obs = random_obs(env.single_observation_space, rng)
    carry = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=(NUM, *x.shape)), x.dtype), initial_carry(model))

    def one(obs, carry, mask):
        action, pi, value, next_carry = decide(model, obs, carry, mask, None)
        return clip_action(env.single_action_space, action), parameters(pi, action), value, next_carry

    mask = random_masks(env.single_action_space, rng) if masked else None
    action, said, value, next_carry = jax.jit(jax.vmap(one))(obs, carry, mask)
    for runtime in deploy.RUNTIMES:
        policy = deploy.load(folder, runtime)
        named = dict(zip(policy._carry, jax.tree.leaves(carry), strict=True)) or None
        answer = in_chunks(policy, obs, named, mask)
        jax.tree.map(close_actions, answer["action"], action)
        for name, want in said.items():
            np.testing.assert_allclose(answer[name], want, rtol=1e-5, atol=1e-5, err_msg=f"{runtime}: {name}")
        np.testing.assert_allclose(answer["value"], value, rtol=1e-5, atol=1e-5)
        for got, want in zip((answer["carry"] or {}).values(), jax.tree.leaves(next_carry), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def in_chunks(policy, *given):
    """What is said of all, a thousand at a time: NumPy keeps everything in between."""
    slices = [slice(start, start + 1000) for start in range(0, NUM, 1000)]
    parts = [policy.outputs(*jax.tree.map(operator.itemgetter(part), given)) for part in slices]
    return jax.tree.map(lambda *x: np.concatenate(x), *parts)


def close_actions(got, want):
    """Choices are the same; numbers as far as the program's are."""
    want = np.asarray(want)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(got, want)


def assert_play_alike(model, env, masked, folder):
    """Greedy episodes, one in each environment: the mean return is the same within 1 %."""
    expected = rl.evaluate(model, env, env.num_envs, key=jax.random.key(3)).returns
    for runtime in deploy.RUNTIMES:
        returns = played(deploy.load(folder, runtime), env, jax.random.key(3), masked)
        assert returns.mean() == pytest.approx(float(np.mean(expected)), rel=0.01), runtime


def played(policy, env, key, masked):
    """The return of the first episode of each environment, with the chance of `rl.evaluate`."""
    begin_key, play_key = jax.random.split(key)
    state, obs = env.reset(begin_key)
    returns, over, carry, t = np.zeros(env.num_envs), np.zeros(env.num_envs, bool), None, 0
    while not over.all():
        mask = np.asarray(env.action_mask(state)) if masked else None
        action, carry = policy(jax.tree.map(np.asarray, obs), carry, mask)
        state, step = stepped(env, state, jax.tree.map(jnp.asarray, action), play_key, t)
        returns += np.where(over, 0.0, step.reward)
        over, obs, t = over | np.asarray(step.terminated | step.truncated), step.obs, t + 1
    return returns


@jax.jit
def stepped(env, state, action, play_key, t):
    _, step_key = jax.random.split(jax.random.fold_in(play_key, t))
    return env.step(state, action, step_key)
