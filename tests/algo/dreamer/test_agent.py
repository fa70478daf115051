"""The agent: how large it is, what it says at first, and that acting and learning see the same."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from rl4jax.algo import dreamer
from rl4jax.algo.dreamer.looking import look
from rl4jax.algo.dreamer.stream import as_stream
from rl4jax.collect.rollout import Rollout
from tests.algo.dreamer.small import SIZE, played


class Spaces(NamedTuple):
    """All that an agent has to know of an environment."""

    single_observation_space: Any
    single_action_space: Any


CART_POLE = Spaces(spaces.Box(-np.inf, np.inf, (4,)), spaces.Discrete(2))
WALKER = Spaces(
    spaces.Dict({name: spaces.Box(-1, 1, (size,)) for name, size in (("orientations", 14), ("height", 1), ("velocity", 9))}),
    spaces.Box(-1, 1, (6,)),
)


@pytest.mark.parametrize(("env", "published"), [(CART_POLE, 637_381), (WALKER, 640_867)])
def test_an_agent_is_as_large_as_published(env, published):
    agent = eqx.filter_eval_shape(lambda key: dreamer.Agent(env, "1m", key=key), jax.random.key(0))
    assert sum(x.size for x in jax.tree.leaves(agent) if jnp.issubdtype(x.dtype, jnp.inexact)) == published


@pytest.mark.parametrize("actions", [spaces.Discrete(3), spaces.MultiDiscrete([3, 2]), spaces.Box(-2, 2, (2,))])
def test_at_first_an_agent_expects_nothing_and_does_anything(actions):
    agent = dreamer.Agent(Spaces(spaces.Box(-1, 1, (4,)), actions), SIZE, key=jax.random.key(0))
    features = jax.random.normal(jax.random.key(1), (20, agent.rssm.d_features))
    reward, value = (jax.vmap(lambda x, of=of: of(x).mean())(features) for of in (agent.reward_of, agent.value_of))
    assert not bool(jnp.any(reward))
    assert not bool(jnp.any(value))
    pi = jax.vmap(agent.pi)(features)
    if isinstance(actions, spaces.Box):
        np.testing.assert_allclose(pi.mean, 0.0, atol=0.1)
        np.testing.assert_allclose(jnp.exp(pi.log_std), 2 * 0.8927174, atol=0.02)
    else:
        evenly = {3: np.full(3, 1 / 3), 5: np.array([1 / 3, 1 / 3, 1 / 3, 1 / 2, 1 / 2])}[pi.logits.shape[-1]]
        np.testing.assert_allclose(jnp.exp(pi.logits), np.broadcast_to(evenly, pi.logits.shape), atol=0.02)


NUM_STEPS, NUM_ENVS, LAST = 7, 2, 3  # an episode of 4 steps, whose last observation is a step of its own, and 3 steps of the next one
IS_FIRST = np.array([t in (0, LAST + 1) for t in range(NUM_STEPS)])
PLACES = np.array([t + (t > LAST) for t in range(NUM_STEPS)])  # of the steps in the stream


@functools.cache
def acting():
    agent, _ = played()
    return agent, eqx.filter_jit(jax.vmap(lambda obs, memory, noise: agent.act(obs, memory, None, noise)))


def act_out(latent_noise):
    """A rollout of an agent that acts with this chance in its latents."""
    agent, act = acting()
    obs = jax.random.normal(jax.random.key(1), (NUM_STEPS + 1, NUM_ENVS, 4))
    action_noise = jax.random.gumbel(jax.random.key(2), (NUM_STEPS, NUM_ENVS, 2))
    begin = jax.tree.map(lambda x: jnp.broadcast_to(x, (NUM_ENVS, *x.shape)), agent.initial_carry())
    memory, memories, actions = begin, [], []
    for t in range(NUM_STEPS):
        action, _, _, memory = act(obs[t], begin if IS_FIRST[t] else memory, (latent_noise[t], action_noise[t]))
        memories, actions = [*memories, memory], [*actions, action]
    flags = {"is_first": IS_FIRST, "terminated": np.arange(NUM_STEPS) == LAST, "truncated": IS_FIRST & False, "valid": IS_FIRST | True}
    flags = {name: jnp.broadcast_to(jnp.asarray(x)[:, None], (NUM_STEPS, NUM_ENVS)) for name, x in flags.items()}
    return Rollout(
        obs=obs[:-1], next_obs=obs[1:], action=jnp.stack(actions), reward=jnp.ones((NUM_STEPS, NUM_ENVS)), **flags, log_prob=None, value=None,
        next_value=None, mask=None, carry=None, privileged=None, episode_return=None, episode_length=None,
        memory=jax.tree.map(lambda *x: jnp.stack(x), *memories),
    )  # fmt: skip


@pytest.mark.parametrize("start", [0, 2, 6])
def test_learning_sees_what_acting_saw_wherever_a_stretch_begins(start):
    """With the latent that was stored there, in the middle of an episode too, and with the same chance."""
    agent, _ = acting()
    num_learned = NUM_STEPS - start  # the stream has one step more, and the first one is only remembered
    chance = jax.random.gumbel(jax.random.key(3), (num_learned, NUM_ENVS, SIZE.groups, SIZE.classes))
    before = jax.random.gumbel(jax.random.key(4), (1 + start, NUM_ENVS, SIZE.groups, SIZE.classes))
    rollout = act_out(jnp.concatenate([before, chance])[PLACES])
    stream, real, _ = as_stream(rollout, jnp.zeros(NUM_ENVS))
    stream = jax.tree.map(lambda x: x[np.asarray(real)[:, 0]], stream)
    assert np.flatnonzero(stream.is_last[:, 0]).tolist() == [LAST + 1]
    seen, _ = eqx.filter_jit(look)(agent, jax.tree.map(lambda x: x[start:], stream), key=jax.random.key(3))
    acted = start < PLACES
    latents = jax.tree.map(lambda x: x[PLACES[acted] - 1 - start], seen.latents)
    np.testing.assert_allclose(latents.deter, rollout.memory[0].deter[acted], atol=1e-5)
    np.testing.assert_array_equal(latents.stoch.argmax(-1), rollout.memory[0].stoch[acted].argmax(-1))
