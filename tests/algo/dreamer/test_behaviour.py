"""How policy and critic learn, against plain loops of the paper's formulas."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax.algo import dreamer
from rl4jax.algo.dreamer.behaviour import actor_critic_loss
from rl4jax.algo.dreamer.looking import look
from tests.algo.dreamer.small import LENGTH, NUM, SIZE, noisy, played

CFG = dreamer.Config(length=LENGTH, imagine_steps=3, lam=0.8, horizon=20.0, entropy_coef=0.5, replay_value_coef=0.7)
GRID = np.linspace(-20, 20, SIZE.num_bins)
BINS = np.sign(GRID) * np.expm1(np.abs(GRID))


def of_small_numbers(readout, seed):
    """One that rather says something of a few units: its outer bins are huge."""
    return eqx.tree_at(lambda x: x.last.bias, noisy(readout, seed, 0.3), jnp.asarray(-1.2 * np.abs(GRID), jnp.float32))


@functools.cache
def given():
    """An agent, a slow critic that says something else, stretches as seen, and a normalizer whose scale is not 1."""
    agent, moments = played()
    readouts = [of_small_numbers(x, seed) for seed, x in enumerate((agent.reward, agent.value, agent.value))]
    agent = eqx.tree_at(lambda x: (x.reward, x.value, x.policy), agent, (*readouts[:2], noisy(agent.policy, 3, 1.0)))
    seen, _ = eqx.filter_jit(look)(agent, moments._replace(reward=3 * moments.reward), key=jax.random.key(4))
    normalizer = rl.collect.PercentileNormalizer.create(decay=0.6, start=0.0)
    return agent, readouts[2], seen, normalizer._replace(low_return=jnp.float32(-4.0), high_return=jnp.float32(3.0))


def softmax(logits):
    odds = np.exp(logits - logits.max())
    return odds / odds.sum()


def cross_entropy(logits, number):
    """With the two bins beside the number, by nearness."""
    two_hot = [np.interp(number, BINS, row) for row in np.eye(len(BINS))]
    return -(two_hot * np.log(softmax(logits))).sum()


def loop_returns(reward, discount, trace, bootstrap):
    """Of T numbers each the T - 1 returns. A reward comes with the step that it arrives at: the first one never counts."""
    returns = [bootstrap[-1]]
    for t in reversed(range(len(reward) - 1)):
        returns.insert(0, reward[t + 1] + discount[t + 1] * ((1 - trace[t + 1]) * bootstrap[t + 1] + trace[t + 1] * returns[0]))
    return returns[:-1]


def loop_weights(goes_on):
    """How likely it is that a step is still played, itself included."""
    weights = [goes_on[0]]
    for x in goes_on[1:]:
        weights.append(weights[-1] * x)
    return weights


def said(readout, features):
    """Logits `[..., K]` for features `[..., F]`."""
    logits = jax.vmap(readout)(features.reshape(-1, features.shape[-1]))
    return np.asarray(logits, np.float64).reshape(*features.shape[:-1], -1)


def mean_of(logits):
    return np.apply_along_axis(softmax, -1, logits) @ BINS


@eqx.filter_jit
def played_on(agent, latents, num_steps, key):
    """What `actor_critic_loss` imagines with this key."""
    begin = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), latents)
    imagined = dreamer.imagine_rollout(agent.rssm, agent.pi, agent.as_vector, begin, num_steps, key=key)
    return imagined.latents.features, imagined.actions


def loop_of_imagined(agent, slow_value, latents, cfg):
    """The metrics, and the returns `[M]` of the steps that were begun from."""
    features, action = played_on(agent, latents, cfg.imagine_steps, jax.random.key(5))
    reward, value, slow = (mean_of(said(readout, features)) for readout in (agent.reward, agent.value, slow_value))
    goes_on = 1 / (1 + np.exp(-said(agent.goes_on, features)[..., 0]))
    value_logits, policy_logits, action = said(agent.value, features), said(agent.policy, features), np.asarray(action)
    trace, num = [cfg.lam] * (cfg.imagine_steps + 1), features.shape[1]
    returns = np.array([loop_returns(reward[:, i], goes_on[:, i], trace, value[:, i]) for i in range(num)])
    low, high = (0.6 * old + 0.4 * np.percentile(returns, share) for old, share in ((-4.0, 5), (3.0, 95)))
    scale = max(1.0, high - low)
    policy_loss, value_loss, entropies, all_weights = 0.0, 0.0, 0.0, 0.0
    for i in range(num):
        for t, weight in enumerate(loop_weights(goes_on[:-1, i])):
            probs = 0.99 * softmax(policy_logits[t, i]) + 0.01 / 2
            entropy = -(probs * np.log(probs)).sum()
            advantage = (returns[i, t] - value[t, i]) / scale
            policy_loss -= weight * (np.log(probs[action[t, i]]) * advantage + cfg.entropy_coef * entropy)
            value_loss += weight * (cross_entropy(value_logits[t, i], returns[i, t]) + cross_entropy(value_logits[t, i], slow[t, i]))
            entropies, all_weights = entropies + weight * entropy, all_weights + weight
    metrics = {"policy_loss": policy_loss / returns.size, "value_loss": value_loss / returns.size, "return_scale": scale}
    return metrics | {"entropy": entropies / all_weights, "imagined_return": returns.mean()}, returns[:, 0]


def loop_of_real(agent, slow_value, seen, imagined, cfg):
    """The loss of the critic on real steps `[L, N]`, with imagined returns of the same shape."""
    features, (length, num) = seen.latents.features, imagined.shape
    logits, slow, loss = said(agent.value, features), mean_of(said(slow_value, features)), 0.0
    for i in range(num):
        terminal, last, first, reward = (
            np.asarray(getattr(seen.moments, x)[:, i]) for x in ("is_terminal", "is_last", "is_first", "reward")
        )
        cut_off = [bool(last[t]) or (t + 1 < length and bool(first[t + 1])) for t in range(length)]
        discount, trace = [0.0 if x else 1 - 1 / cfg.horizon for x in terminal], [0.0 if x else cfg.lam for x in cut_off]
        for t, returned in enumerate(loop_returns(reward, discount, trace, imagined[:, i])):
            if not cut_off[t]:
                loss += cross_entropy(logits[t, i], returned) + cross_entropy(logits[t, i], slow[t, i])
    return loss / (num * (length - 1))


@pytest.mark.parametrize("imagine_from", [0, 3])
def test_policy_and_critic_learn_as_plain_loops_say(imagine_from):
    agent, slow_value, seen, normalizer = given()
    cfg, starts = dataclasses.replace(CFG, imagine_from=imagine_from), imagine_from or LENGTH
    total, (metrics, _) = eqx.filter_jit(actor_critic_loss)(agent, slow_value, seen, normalizer, cfg, key=jax.random.key(5))
    last = jax.tree.map(lambda x: x[LENGTH - starts :], seen)
    wanted, imagined = loop_of_imagined(agent, slow_value, last.latents, cfg)
    wanted["replay_value_loss"] = loop_of_real(agent, slow_value, last, imagined.reshape(starts, NUM), cfg)
    assert {name: float(x) for name, x in metrics.items()} == pytest.approx({f"train/{name}": x for name, x in wanted.items()}, rel=1e-4)
    by_hand = wanted["policy_loss"] + wanted["value_loss"] + 0.7 * wanted["replay_value_loss"]
    assert float(total) == pytest.approx(by_hand, rel=1e-4)


def test_the_loops_say_what_is_published():
    """And `lambda_returns` says the same: see test_parts."""
    np.testing.assert_allclose(loop_returns([9, 1, 2, 3], [0.9] * 4, [0.5] * 4, [4, 5, 6, 7]), [7.24825, 8.885, 9.3])
    np.testing.assert_allclose(loop_returns([0, 1, 1, 1], [1, 0.9, 0.8, 0.5], [0.95] * 4, [1] * 4), [2.9089, 2.18, 1.5])
    np.testing.assert_allclose(loop_weights([0.9, 0.8, 0.5, 1.0]), [0.9, 0.72, 0.36, 0.36])
