"""What learns from what: the gradients of Dreamer's losses, by name."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

import rl4jax as rl
from rl4jax import gradients
from rl4jax.algo import dreamer
from rl4jax.algo.dreamer.behaviour import actor_critic_loss
from rl4jax.algo.dreamer.representation import BarlowTwins, Decoder, InfoNCE
from rl4jax.algo.dreamer.world_model import world_model_loss
from tests.algo.dreamer.small import played

CFG = dreamer.Config(
    batch_size=2, length=4, capacity=200, num_steps=4, learning_starts=20, imagine_steps=3, train_ratio=4.0, lr=1e-3, free_nats=0.0
)
WORLD = ("encoder", "rssm", "reward", "goes_on")


def world_loss(agent, moments):
    return world_model_loss(agent, moments, CFG, key=jax.random.key(4))[0]


def behaviour_loss(agents, moments, part):
    """One part of it, of an agent and its slow critic."""
    agent = agents["agent"]
    _, (_, seen) = world_model_loss(agent, moments, CFG, key=jax.random.key(4))
    normalizer = rl.collect.PercentileNormalizer.create(start=0.0)
    _, (metrics, _) = actor_critic_loss(agent, agents["slow"], seen, normalizer, CFG, key=jax.random.key(5))
    return metrics[f"train/{part}_loss"]


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


@pytest.mark.parametrize(("part", "other"), [("policy", "value"), ("value", "policy")])
def test_imagined_rollouts_teach_policy_and_critic_each_by_its_own_loss(part, other):
    """With continuous actions, through which gradients could pass."""
    agent, moments = played(Decoder, rl.envs.Pendulum)
    agents = {"agent": agent, "slow": agent.value}
    others = [f"agent.{name}" for name in (other, *WORLD, "representation")]
    gradients.assert_flow(behaviour_loss, agents, moments, part, reaches=f"agent.{part}", not_reaches=(*others, "slow"))


def test_real_steps_teach_the_critic_and_what_it_sees_by():
    agent, moments = played(Decoder)
    agents = {"agent": agent, "slow": agent.value}
    not_reached = ("agent.policy", "agent.reward", "agent.goes_on", "agent.representation", "slow")
    reached = ("agent.value", "agent.rssm.gates", "agent.encoder")
    gradients.assert_flow(behaviour_loss, agents, moments, "replay_value", reaches=reached, not_reaches=not_reached)


def test_the_encoder_learns_by_way_of_latents_only():
    """The tokens that Barlow Twins compares with are held constant."""
    agent, moments = played(BarlowTwins)

    def compared(tokens):
        _, (_, seen) = world_model_loss(agent, moments, CFG, key=jax.random.key(4))
        return agent.representation.loss(agent, moments, seen._replace(tokens=tokens), key=jax.random.key(5))

    tokens = jnp.ones((CFG.length, 3, agent.encoder.d_out))
    assert not bool(jnp.any(jax.grad(compared)(tokens)))
