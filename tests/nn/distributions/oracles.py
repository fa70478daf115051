"""Slow float64 answers, and the tests of frequencies."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np


def log_softmax(logits, mask=None):
    """Of one head; forbidden choices get -inf."""
    logits = np.asarray(logits, np.float64)
    allowed = np.ones(len(logits), bool) if mask is None else np.asarray(mask)
    total = math.log(sum(math.exp(x - logits[allowed].max()) for x in logits[allowed])) + logits[allowed].max()
    return np.where(allowed, logits - total, -np.inf)


def entropy(log_probs):
    return -sum(math.exp(x) * x for x in log_probs if x > -np.inf)


def kl(log_probs, other):
    return sum(math.exp(x) * (x - y) for x, y in zip(log_probs, other, strict=True) if x > -np.inf)


def normal_density(x, mean, std):
    return np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))


def assert_frequencies(counts, probs):
    """Counts are what the probabilities promise: chi-square within five standard deviations, and nothing impossible happened."""
    counts, probs = np.asarray(counts, np.float64), np.asarray(probs, np.float64)
    assert counts[probs == 0].sum() == 0
    counts, expected = counts[probs > 0], probs[probs > 0] * counts.sum()
    assert expected.min() > 5, "too few samples for this test"
    freedom = max(len(counts) - 1, 1)
    assert ((counts - expected) ** 2 / expected).sum() < freedom + 5 * math.sqrt(2 * freedom)


@jax.jit
def samples(pi, keys):
    return jax.vmap(pi.sample)(keys)


@jax.jit
def log_probs(pi, actions):
    """Of many actions under one distribution."""
    return jax.vmap(pi.log_prob)(actions)


@jax.jit
def measures(pi, other, action):
    return {"log_prob": pi.log_prob(action), "entropy": pi.entropy(action), "kl": pi.kl(other, action)}


@functools.partial(jax.jit, static_argnums=0)
def gradients(build, p, q, mask, action):
    """Of each measure between build(p) and build(q), with respect to p and q."""

    def measure(pair, name):
        pi, other = (build(x).masked(mask) for x in pair)
        return measures(pi, other, action)[name]

    return {name: jax.grad(measure)((p, q), name) for name in ("log_prob", "entropy", "kl")}


def all_finite(tree):
    return all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(tree))
