"""What learns from what: the gradients of Dreamer's losses, by name."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest

import rl4jax as rl
from rl4jax import gradients
from rl4jax.algo import dreamer
from rl4jax.algo.dreamer.behaviour import actor_critic_loss
from rl4jax.algo.dreamer.representation import BarlowTwins, Decoder, InfoNCE
from rl4jax.algo.dreamer.world_model import world_model_loss

SIZE = dreamer.Size(deter=16, hidden=8, units=8, classes=4, depth=2, groups=3, num_blocks=4, num_bins=15)
CFG = dreamer.Config(batch_size=2, length=4, capacity=200, num_steps=4, learning_starts=20, imagine_steps=3, train_ratio=4.0, lr=1e-3)
WORLD = ("encoder", "rssm", "reward", "goes_on")


@functools.cache
def played(representation):
    """An agent whose last layers are not zero, and stretches of random steps."""
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=2)
    agent = dreamer.Agent(env, SIZE, representation, key=jax.random.key(0))
    keys = iter(jax.random.split(jax.random.key(1), 500))
    agent = jax.tree.map(lambda x: x + 0.1 * jax.random.normal(next(keys), x.shape) if isinstance(x, jax.Array) else x, agent)

    def some(x):
        shape = (1 + CFG.length, 3, *x.shape)
        return (
            jax.random.normal(next(keys), shape) if x.dtype == jnp.float32 else jax.random.bernoulli(next(keys), 0.2, shape).astype(x.dtype)
        )

    return agent, jax.tree.map(some, dreamer.moment_like(agent, env))


def world_loss(agent, moments):
    return world_model_loss(agent, moments, CFG, key=jax.random.key(4))[0]


def behaviour_loss(agents, moments, real):
    """Of an agent and its slow critic; the losses on imagined rollouts alone, or with the one on real steps."""
    agent = agents["agent"]
    _, (_, seen) = world_model_loss(agent, moments, CFG, key=jax.random.key(4))
    normalizer = rl.collect.PercentileNormalizer.create(start=0.0)
    given = (agents["slow"], seen, normalizer, CFG)
    total, (metrics, _) = actor_critic_loss(agent, *given, key=jax.random.key(5))
    return total if real else metrics["train/policy_loss"] + metrics["train/value_loss"]


def test_the_representation_counts_as_much_as_it_is_told():
    agent, moments = played(Decoder)
    totals, parts = zip(
        *(
            world_model_loss(agent, moments, dataclasses.replace(CFG, representation_coef=x), key=jax.random.key(4))
            for x in (0.0, 1.0, 10.0)
        ),
        strict=True,
    )
    part = parts[0][0]["train/representation_loss"]
    assert part > 0.1
    assert jnp.allclose(jnp.array(totals), totals[0] + part * jnp.array([0.0, 1.0, 10.0]), rtol=1e-5)


@pytest.mark.parametrize("representation", [Decoder, BarlowTwins, InfoNCE])
def test_the_world_model_learns_all_but_policy_and_critic(representation):
    agent, moments = played(representation)
    gradients.assert_flow(world_loss, agent, moments, reaches=WORLD, not_reaches=("policy", "value"))


def test_imagined_rollouts_teach_policy_and_critic_alone():
    agent, moments = played(Decoder)
    agents = {"agent": agent, "slow": agent.value}
    others = [f"agent.{part}" for part in (*WORLD, "representation")]
    loss = functools.partial(behaviour_loss, real=False)
    gradients.assert_flow(loss, agents, moments, reaches=("agent.policy", "agent.value"), not_reaches=(*others, "slow"))


def test_real_steps_teach_the_critic_and_what_it_sees_by():
    agent, moments = played(Decoder)
    agents = {"agent": agent, "slow": agent.value}
    loss = functools.partial(behaviour_loss, real=True)
    not_reached = ("agent.reward", "agent.goes_on", "agent.representation", "slow")
    gradients.assert_flow(loss, agents, moments, reaches=("agent.value", "agent.rssm.gates", "agent.encoder"), not_reaches=not_reached)


def test_the_encoder_learns_by_way_of_latents_only():
    """The tokens that Barlow Twins compares with are held constant."""
    agent, moments = played(BarlowTwins)

    def compared(tokens):
        _, (_, seen) = world_model_loss(agent, moments, CFG, key=jax.random.key(4))
        return agent.representation.loss(agent, moments, seen._replace(tokens=tokens), key=jax.random.key(5))

    tokens = jnp.ones((CFG.length, 3, agent.encoder.d_out))
    assert not bool(jnp.any(jax.grad(compared)(tokens)))
