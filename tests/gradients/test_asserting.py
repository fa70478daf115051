"""Assertions about gradients say what is wrong, and nothing else fails them."""

import re

import jax
import jax.numpy as jnp
import pytest

import rl4jax as rl
from rl4jax import dqn, ppo
from rl4jax.gradients import assert_flow, assert_step_changes
from tests.algo.small import started

NETS = {"online": {"weight": jnp.array([1.0, 2.0]), "bias": jnp.zeros(())}, "target": {"weight": jnp.array([2.0, 1.0])}}
X = jnp.array([1.0, 1.0])


def q_loss(nets, x, detach):
    q = nets["online"]["weight"] @ x + nets["online"]["bias"]
    return jnp.square(q - 0.9 * detach(nets["target"]["weight"] @ x))


def test_a_target_network_that_is_held_still_passes():
    assert_flow(q_loss, NETS, X, jax.lax.stop_gradient, reaches="online", not_reaches="target")
    assert_flow(q_loss, NETS, X, jax.lax.stop_gradient, reaches=("online.weight", "online.bias"))


def test_a_target_network_that_is_trained_by_mistake_fails():
    with pytest.raises(AssertionError, match=r"^target.weight must have no gradient, and there is one, of norm 0\.\d+\.$"):
        assert_flow(q_loss, NETS, X, lambda y: y, reaches="online", not_reaches="target")


def test_a_head_that_is_not_trained_fails_with_its_cause():
    with pytest.raises(
        AssertionError, match=r"target.weight must have a gradient, and it is blocked: stop_gradient at .*test_asserting.py:\d+"
    ):
        assert_flow(q_loss, NETS, X, lambda y: jax.lax.stop_gradient(y), reaches=["online", "target"])
    with pytest.raises(AssertionError, match=r"online.bias must have a gradient, and it is disconnected\.$"):
        assert_flow(lambda nets: nets["target"]["weight"].sum(), NETS, reaches="online.bias")
    with pytest.raises(AssertionError, match=r"online.bias must have a gradient, and it is zero: vanishes in mul"):
        assert_flow(lambda nets: nets["online"]["bias"] * 0.0, NETS, reaches="online.bias")


def test_a_gradient_that_happens_to_be_zero_does_reach():
    with pytest.raises(AssertionError, match="of norm 0"):
        assert_flow(lambda nets: (nets["target"]["weight"] * 0.0).sum(), NETS, not_reaches="target")


def test_a_part_that_does_not_exist_is_refused():
    with pytest.raises(rl.ConfigError, match=r"assert_flow: not_reaches: the model has no parameter 'targets'.*Did you mean 'target'\?"):
        assert_flow(q_loss, NETS, X, lambda y: y, not_reaches="targets")


def test_a_loss_may_take_its_arguments_by_name():
    assert_flow(q_loss, NETS, X, detach=jax.lax.stop_gradient, reaches="online", not_reaches="target")
    assert_flow(lambda nets, *, model: (nets["target"]["weight"] * model).sum(), NETS, model=X, reaches="target")


@pytest.fixture(scope="module")
def played():
    env, cfg = rl.VecEnv(rl.envs.CartPole(), num_envs=4), ppo.Config(num_steps=8, num_minibatches=2, update_epochs=1)
    return *ppo.collect(started(env, cfg), env, cfg), cfg


def test_an_update_of_ppo_changes_everything(played):
    assert_step_changes(ppo.update, *played)


def test_an_update_that_changes_nothing_fails(played):
    state, rollout, cfg = played
    with pytest.raises(AssertionError, match=r"does not change trunks.0.\S+, .* more\. Nothing has changed at all: is the learning rate 0"):
        assert_step_changes(lambda state: state, state)
    broken = rollout._replace(reward=rollout.reward * jnp.nan)
    with pytest.raises(AssertionError, match="was the step skipped"), jax.debug_key_reuse(False):
        assert_step_changes(ppo.update, state, broken, cfg)


def test_only_what_is_named_must_change():
    def train_head(params):
        return params | {"head": params["head"] + 1.0}

    params = {"body": jnp.ones(2), "head": jnp.ones(2)}
    assert_step_changes(train_head, params, names="head", of=lambda x: x)
    with pytest.raises(AssertionError, match=re.escape("The step does not change body. rl.gradients.report tells why.")):
        assert_step_changes(train_head, params, of=lambda x: x)
    with pytest.raises(AssertionError, match="makes head non-finite"):
        assert_step_changes(lambda p: (p | {"head": p["head"] / 0.0}, {}), params, names="head", of=lambda x: x)


@pytest.mark.parametrize("with_metrics", [True, False])
def test_a_state_may_be_a_tuple(with_metrics):
    """And whether metrics come after it is seen from its structure."""

    def update(state, x):
        params, count = state
        new = (params | {"head": params["head"] - x}, count + 1)
        return (new, {"loss": 0.0}) if with_metrics else new

    state = ({"body": jnp.ones(2), "head": jnp.ones(2)}, 0)
    assert_step_changes(update, state, 0.1, names="head", of=lambda state: state[0])
    with pytest.raises(AssertionError, match="The step does not change body"):
        assert_step_changes(update, state, 0.1, of=lambda state: state[0])
    with pytest.raises(TypeError, match=r"assert_step_changes: state is a tuple, .*no attribute `model`\. .* of=lambda state: state\[0\]"):
        assert_step_changes(update, state, 0.1)


def test_a_target_network_moves_by_itself(getkey):
    env, cfg = rl.VecEnv(rl.envs.CartPole(), num_envs=2), dqn.Config(capacity=10)
    model_key, key = jax.random.split(getkey())
    state = dqn.init(rl.nn.QNetwork(env, key=model_key, hidden=(8,)), env, cfg, key=key)
    state = state._replace(packed=state.packed.with_params({name: x + 1.0 for name, x in state.packed.params.items()}))
    assert_step_changes(dqn.move_target, state, of=lambda state: state.target)
