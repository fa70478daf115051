"""How the world model learns, against plain loops of the paper's formulas."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax.algo import dreamer
from rl4jax.algo.dreamer.looking import look
from rl4jax.algo.dreamer.world_model import world_model_loss
from tests.algo.dreamer.small import LENGTH, NUM, noisy, played
from tests.algo.dreamer.test_behaviour import cross_entropy, softmax

CFG = dreamer.Config(length=LENGTH, horizon=20.0, dyn_coef=2.0, rep_coef=0.3, free_nats=1.2, representation_coef=0.25)


def surer():
    """An agent that is surer of what it expects and sees, so that divergences are larger and smaller than the free nats; and stretches."""
    agent, moments = played()
    parts = lambda x: (x.rssm.prior_logits, x.rssm.posterior_logits)  # noqa: E731
    return eqx.tree_at(parts, agent, noisy(parts(agent), 3, 0.3)), moments


def divergence(posterior, prior):
    """Summed over choices, with their uniform share."""
    p, q = (0.99 * np.array([softmax(row) for row in logits]) + 0.01 / 4 for logits in (posterior, prior))
    return (p * np.log(p / q)).sum()


@eqx.filter_jit
def said(agent, latents):
    """Logits of what is expected, of rewards and of going on, for all steps."""
    return jax.vmap(jax.vmap(lambda x: (agent.rssm.prior(x.deter).logits, agent.reward(x.features), agent.goes_on_logit(x.features))))(
        latents
    )


def test_the_world_model_learns_as_a_plain_loop_says():
    agent, moments = surer()
    total, (metrics, seen) = eqx.filter_jit(world_model_loss)(agent, moments, CFG, key=jax.random.key(4))
    _, posterior = eqx.filter_jit(look)(agent, moments, key=jax.random.split(jax.random.key(4))[0])
    posterior, prior, reward, goes_on = (np.asarray(x, np.float64) for x in (posterior, *said(agent, seen.latents)))
    losses, kls = {"kl": 0.0, "reward": 0.0, "continue": 0.0}, []
    for t, i in np.ndindex(LENGTH, NUM):
        kls.append(divergence(posterior[t, i], prior[t, i]))
        losses["kl"] += (2.0 + 0.3) * max(1.2, kls[-1])
        losses["reward"] += cross_entropy(reward[t, i], moments.reward[1 + t, i])  # the first step is only remembered
        wanted = 0.0 if moments.is_terminal[1 + t, i] else 1 - 1 / 20
        losses["continue"] += np.log1p(np.exp(goes_on[t, i])) - wanted * goes_on[t, i]
    assert min(kls) < 1.2 < max(kls)
    losses = {f"train/{name}_loss": x / (LENGTH * NUM) for name, x in losses.items()}
    assert {name: float(metrics[name]) for name in losses} == pytest.approx(losses, rel=1e-4)
    assert float(metrics["train/kl"]) == pytest.approx(np.mean(kls), rel=1e-4)
    assert float(total) == pytest.approx(sum(losses.values()) + 0.25 * float(metrics["train/representation_loss"]), rel=1e-4)


def test_what_is_expected_is_taught_by_one_coefficient_and_what_is_seen_by_the_other():
    """Of a single step: over several, what is seen now also changes what is expected next."""
    agent, moments = surer()
    one_step = jax.tree.map(lambda x: x[:2], moments)

    def kl_loss(agent, cfg):
        return world_model_loss(agent, one_step, cfg, key=jax.random.key(4))[1][0]["train/kl_loss"]

    gradient = eqx.filter_jit(eqx.filter_grad(kl_loss))
    for dyn_coef, rep_coef in ((1.0, 0.0), (0.0, 1.0)):
        rssm = gradient(agent, dataclasses.replace(CFG, dyn_coef=dyn_coef, rep_coef=rep_coef, free_nats=0.0)).rssm
        assert bool(jnp.any(rssm.prior_logits.weight)) == bool(dyn_coef)
        assert bool(jnp.any(rssm.posterior_logits.weight)) == bool(rep_coef)
