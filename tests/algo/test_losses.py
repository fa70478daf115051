"""Losses and their gradients against formulas written out in NumPy."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax import losses

RNG = np.random.default_rng(0)
LOGITS, ADVANTAGE = RNG.normal(size=(5, 3)).astype(np.float32), np.array([1.0, -2.0, 0.5, 0.0, 3.0], np.float32)
ACTION = np.array([0, 2, 1, 1, 2])
MASK = np.array([[1, 1, 1], [0, 1, 1], [1, 1, 0], [0, 1, 0], [1, 0, 1]], bool)


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def test_the_value_loss_is_squared_near_the_target_and_linear_far_away():
    value, target = jnp.array([0.0, 0.5, 3.0, -9.0]), jnp.zeros(4)
    np.testing.assert_allclose(losses.value_loss(value, target), np.mean([0.0, 0.125, 2.5, 8.5]))
    np.testing.assert_allclose(losses.value_loss(value, target, delta=4.0), np.mean([0.0, 0.125, 4.5, 4 * (9 - 2)]))
    np.testing.assert_allclose(jax.grad(losses.value_loss)(value, target), np.array([0.0, 0.5, 1.0, -1.0]) / 4)


@pytest.mark.parametrize("mask", [None, MASK], ids=["free", "masked"])
def test_the_discrete_policy_loss_is_that_of_reinforce(mask):
    allowed = np.ones_like(MASK) if mask is None else mask
    log_prob = log_softmax(np.where(allowed, LOGITS, -np.inf))[np.arange(5), ACTION]
    inputs = jnp.asarray(ACTION), None if mask is None else jnp.asarray(mask), jnp.asarray(ADVANTAGE)
    loss, grads = jax.jit(jax.value_and_grad(losses.policy_loss_discrete))(jnp.asarray(LOGITS), *inputs)
    np.testing.assert_allclose(loss, -np.mean(ADVANTAGE * log_prob), rtol=1e-5)
    probs = np.exp(log_softmax(np.where(allowed, LOGITS, -np.inf)))
    np.testing.assert_allclose(grads, -ADVANTAGE[:, None] * (np.eye(3)[ACTION] - probs) / 5, atol=1e-6)


def test_the_discrete_policy_loss_of_a_uniform_policy():
    """Advantages of 1 and A equal logits: the loss is log A."""
    loss = losses.policy_loss_discrete(jnp.zeros((5, 4)), jnp.asarray(ACTION), None, jnp.ones(5))
    np.testing.assert_allclose(loss, np.log(4), rtol=1e-6)


def test_only_positive_advantages_pull_a_continuous_policy():
    action, target = jnp.zeros((3, 2)), jnp.array([[1.0, 2.0], [3.0, 3.0], [0.0, 1.0]])
    advantage = jnp.array([2.0, -5.0, 1.0])
    loss, grads = jax.value_and_grad(losses.policy_loss_continuous)(action, target, advantage)
    np.testing.assert_allclose(loss, (2 * 5 + 1 * 1) / 3, rtol=1e-6)
    np.testing.assert_allclose(grads, np.array([[-4.0, -8.0], [0.0, 0.0], [0.0, -2.0]]) / 3, rtol=1e-6)


def test_the_multi_head_value_loss_is_told_head_by_head_and_can_be_differentiated():
    value, target = jnp.asarray(RNG.normal(size=(2, 6, 3)), jnp.float32)
    per_head = np.mean((np.asarray(value) - np.asarray(target)) ** 2, 0)
    loss, got = losses.multi_head_value_loss(value, target)
    np.testing.assert_allclose(got, per_head, rtol=1e-5)
    np.testing.assert_allclose(loss, per_head.sum(), rtol=1e-5)
    weight = jnp.array([0.5, 0.0, 2.0])
    weighted, got = losses.multi_head_value_loss(value, target, weight)
    np.testing.assert_allclose(got, per_head, rtol=1e-5)
    np.testing.assert_allclose(weighted, per_head @ np.asarray(weight), rtol=1e-5)
    grads = jax.grad(lambda value: losses.multi_head_value_loss(value, target, weight)[0])(value)
    np.testing.assert_allclose(grads, 2 * (value - target) * weight / 6, rtol=1e-5)


NUMBERS = jnp.asarray(RNG.normal(size=(5, 3)), jnp.float32)
CASES = {
    "value_loss": (lambda value, target: losses.value_loss(value, target), (NUMBERS[0], NUMBERS[1])),
    "policy_loss_discrete": (lambda x, a: losses.policy_loss_discrete(x, jnp.asarray(ACTION), None, a), (NUMBERS, NUMBERS[:, 0])),
    "policy_loss_continuous": (losses.policy_loss_continuous, (NUMBERS, NUMBERS + 1, NUMBERS[:, 0])),
    "multi_head_value_loss": (lambda *x: losses.multi_head_value_loss(*x)[0], (NUMBERS, NUMBERS + 1, NUMBERS[0])),
}


@pytest.mark.parametrize("name", CASES)
def test_a_loss_moves_predictions_and_neither_targets_nor_advantages_nor_weights(name):
    loss, inputs = CASES[name]
    of_prediction, *of_others = jax.grad(loss, argnums=tuple(range(len(inputs))))(*inputs)
    assert (of_prediction != 0).any()
    assert all((g == 0).all() for g in of_others)


def test_losses_name_what_does_not_fit():
    value_loss, discrete, continuous, heads = (
        inspect.unwrap(f)
        for f in (losses.value_loss, losses.policy_loss_discrete, losses.policy_loss_continuous, losses.multi_head_value_loss)
    )
    two, three = jnp.ones(2), jnp.ones(3)
    with pytest.raises(rl.ShapeError, match=r"value_loss: target has shape \(3,\); it must be that of value, \(2,\)"):
        value_loss(two, three)
    with pytest.raises(rl.ConfigError, match=r"value_loss: delta = 0\.0 must be positive"):
        value_loss(two, two, 0.0)
    with pytest.raises(rl.ShapeError, match=r"logits \(2, 4\), action \(3,\); they must be \[N, A\], \[N\] and \[N, A\]"):
        discrete(jnp.ones((2, 4)), jnp.zeros(3, int), None, three)
    with pytest.raises(rl.ShapeError, match=r"mask \(3, 1\)"):
        discrete(jnp.ones((3, 4)), jnp.zeros(3, int), jnp.ones((3, 1), bool), three)
    with pytest.raises(rl.ShapeError, match=r"policy_loss_discrete: advantage has shape \(2,\); it must be that of action, \(3,\)"):
        discrete(jnp.ones((3, 4)), jnp.zeros(3, int), None, two)
    with pytest.raises(rl.ShapeError, match=r"policy_loss_continuous: advantage has shape \(2,\); it must be that of action without its"):
        continuous(jnp.ones((3, 4)), jnp.ones((3, 4)), two)
    with pytest.raises(rl.ShapeError, match=r"multi_head_value_loss: weight has shape \(2,\); it must be \(4,\), one for each head"):
        heads(jnp.ones((3, 4)), jnp.ones((3, 4)), two)
