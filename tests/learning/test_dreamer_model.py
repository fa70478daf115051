"""A world model of a world without chance foresees all of it: rewards and ends, fifteen steps ahead."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax import dreamer
from rl4jax.algo.dreamer.learning import make_optimizer
from rl4jax.algo.dreamer.stream import as_stream

NUM_CELLS, AHEAD, SEEN = 8, 15, 3
REWARDS = jnp.array([0.0, 0.0, 1.0, -1.0, 0.0, 2.0, 0.0, 5.0])  # for coming to a cell


class Corridor(rl.AbstractEnv):
    """Left or right, from any cell to the last, which ends the episode."""

    @property
    def observation_space(self):
        return spaces.Box(0, 1, (NUM_CELLS,), np.float32)

    @property
    def action_space(self):
        return spaces.Discrete(2)

    def reset(self, key):
        cell = jax.random.randint(key, (), 0, NUM_CELLS - 1, jnp.int32)
        return cell, jax.nn.one_hot(cell, NUM_CELLS)

    def step(self, state, action, key):
        state = jnp.clip(state + 2 * jnp.asarray(action, jnp.int32) - 1, 0, NUM_CELLS - 1)
        ended = state == NUM_CELLS - 1
        return state, rl.Step(obs=jax.nn.one_hot(state, NUM_CELLS), reward=REWARDS[state], terminated=ended, truncated=jnp.array(False))


CFG = dreamer.Config(num_steps=1000, batch_size=16, length=20, capacity=30_000, free_nats=0.1, lr=rl.Linear(2e-3, 0.0, 3000))


@functools.partial(jax.jit, static_argnames="num_steps")
def learned(packed, opt_state, replay, key, num_steps):
    """Parameters after so many gradient steps of the world model alone."""

    def step(learner, i):
        params, opt_state = learner
        sample_key, loss_key = jax.random.split(jax.random.fold_in(key, i))
        moments = replay.sample(CFG.batch_size, 1 + CFG.length, key=sample_key).items
        grads = jax.grad(lambda params: dreamer.world_model_loss(packed.with_params(params).model, moments, CFG, key=loss_key)[0])(params)
        changes, opt_state = make_optimizer(CFG, i).update(grads, opt_state, params)
        return (optax.apply_updates(params, changes), opt_state), None

    (params, _), _ = jax.lax.scan(step, (packed.params, opt_state), jnp.arange(num_steps))
    return params


@eqx.filter_jit
def foreseen(agent, moments):
    """Rewards and ends of stretches [SEEN + AHEAD, N], the last ones without a look."""

    def one(moments):
        latent, before = agent.initial_carry()

        def step(now, given):
            latent, before = now
            t, obs, action, is_first = given
            seen, _ = agent.rssm.observe_step(latent, before, agent.encoder(obs), is_first)
            ahead = agent.rssm.imagine(latent, before)
            latent = jax.tree.map(lambda x, y: jnp.where(t < SEEN, x, y), seen, ahead)
            return (latent, action), (agent.reward_of(latent.features).mean(), jax.nn.sigmoid(agent.goes_on_logit(latent.features)))

        return jax.lax.scan(step, (latent, before), (jnp.arange(SEEN + AHEAD), moments.obs, moments.action, moments.is_first))[1]

    return jax.vmap(one, 1, 1)(moments)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_fifteen_steps_ahead(seed):
    env = rl.VecEnv(Corridor(), num_envs=8)
    agent = dreamer.Agent(env, "tiny", key=jax.random.key(seed))
    state = dreamer.init(agent, env, CFG, key=jax.random.key(seed + 10))
    rings = []
    for _ in range(2):  # to learn from, and to be asked about
        state, rollout = dreamer.collect(state, env, CFG)
        stream, real, _ = as_stream(rollout, state.last_reward)
        rings.append(state.replay.add(stream, real))
    params = learned(state.packed, state.opt_state, rings[0], jax.random.key(seed + 20), 3000)
    asked = rings[1].sample(10_000, SEEN + AHEAD, key=jax.random.key(seed + 30)).items
    asked = jax.tree.map(lambda x: x[:, asked.is_first[0]], asked)  # whole episodes, or their beginnings
    reward, goes_on = foreseen(state.packed.with_params(params).model, asked)
    # After an end nothing follows from the actions: a new episode begins. The steps up to it count.
    alive = ~jnp.cumsum(asked.is_first[SEEN:], 0).astype(bool)
    right_reward = jnp.abs(reward[SEEN:] - asked.reward[SEEN:]) < 0.5
    right_end = (goes_on[SEEN:] < 0.5) == asked.is_terminal[SEEN:]
    shares = [float((right & alive).sum() / alive.sum()) for right in (right_reward, right_end)]
    ends = asked.is_terminal[SEEN:] & alive
    found = float((right_end & ends).sum() / ends.sum())
    assert min(*shares, found) > 0.99, (shares, found)
