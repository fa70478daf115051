"""IMPALA's verbs: what each promises, on-policy and with rollouts that an older policy played."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax import impala
from rl4jax.collect.revisit import revisit
from tests.algo.small import PROBES, AnyOf, Loop, Mixed

SMALL = impala.Config(num_steps=8, lr=1e-2)


def impala_started(env, cfg, seed=0, opt=None, **network):
    """A state before its first update."""
    model_key, key = jax.random.split(jax.random.key(seed))
    return impala.init(rl.nn.ActorCritic(env, key=model_key, **({"hidden": (16,)} | network)), env, cfg, key=key, opt=opt)


@pytest.fixture(scope="module")
def env():
    return rl.VecEnv(rl.envs.CartPole(), num_envs=4)


@pytest.mark.parametrize("network", [{}, {"core": "lstm", "hidden": (8,)}], ids=["feed-forward", "recurrent"])
def test_a_model_says_the_same_again_of_what_it_played(network):
    """Values and log-probabilities that were computed while playing are the oracle, ends and masks included."""
    for world in (rl.VecEnv(Mixed(length=3), num_envs=4), rl.VecEnv(rl.TimeLimit(rl.envs.CartPole(), 5), num_envs=4)):
        state = impala_started(world, SMALL, **network)
        _, judged = rl.collect.unroll(state.model, world, state.playing, 12, key=jax.random.key(5))
        said, next_value = jax.jit(revisit)(state.model, judged)
        np.testing.assert_allclose(said.log_prob, judged.log_prob, atol=1e-5)
        np.testing.assert_allclose(said.value, judged.value, atol=1e-5)
        np.testing.assert_allclose(next_value, judged.next_value, atol=1e-5)


def test_a_fresh_rollout_has_ratio_one_and_an_old_one_has_not(env):
    state = impala_started(env, SMALL)
    state, old = impala.collect(state, env, SMALL)
    state, metrics = impala.update(state, old, SMALL)
    assert float(metrics["train/mean_rho"]) == pytest.approx(1.0, abs=1e-5)
    for _ in range(5):
        state, rollout = impala.collect(state, env, SMALL)
        state, _ = impala.update(state, rollout, SMALL)
    _, metrics = impala.update(state, old, SMALL)
    assert float(metrics["train/approx_kl"]) > 1e-5


def test_the_loss_matches_a_plain_loop(env, getkey):
    cfg = dataclasses.replace(SMALL, gamma=0.9, trace_lambda=0.8, clip_rho=1.2, clip_c=0.9, clip_pg_rho=1.1, vf_coef=0.7, ent_coef=0.03)
    state, rollout = impala.collect(impala_started(env, cfg), env, cfg)
    rollout = rollout._replace(log_prob=rollout.log_prob + 0.3 * jax.random.normal(getkey(), rollout.log_prob.shape))
    truncated = jnp.zeros_like(rollout.truncated).at[3, 1].set(True)
    rollout = rollout._replace(truncated=truncated, terminated=jnp.zeros_like(truncated).at[5, 0].set(True))
    got, metrics = impala.loss(state.model, rollout, cfg)

    pi_value = jax.vmap(jax.vmap(lambda obs, action: ((pi := state.model(obs))[0].log_prob(action), pi[0].entropy(), pi[1])))
    log_prob, entropy, value = map(np.asarray, pi_value(rollout.obs, rollout.action))
    next_value = np.asarray(jax.vmap(jax.vmap(lambda obs: state.model(obs)[1]))(rollout.next_obs))
    rho = np.exp(log_prob - np.asarray(rollout.log_prob))
    policy, value_loss, count = 0.0, 0.0, rho.size
    for b in range(4):
        later_error, later_target = 0.0, next_value[-1, b]
        for t in reversed(range(8)):
            discount = 0.0 if rollout.terminated[t, b] else 0.9
            trace = 0.0 if rollout.terminated[t, b] or rollout.truncated[t, b] else 0.8
            reward = float(rollout.reward[t, b])
            next_target = trace * later_target + (1 - trace) * next_value[t, b]
            policy -= min(rho[t, b], 1.1) * (reward + discount * next_target - value[t, b]) * log_prob[t, b] / count
            delta = min(rho[t, b], 1.2) * (reward + discount * next_value[t, b] - value[t, b])
            later_error = delta + discount * trace * min(rho[t, b], 0.9) * later_error
            later_target = value[t, b] + later_error
            value_loss += 0.5 * later_error**2 / count
    np.testing.assert_allclose(metrics["train/policy_loss"], policy, rtol=1e-4)
    np.testing.assert_allclose(metrics["train/value_loss"], value_loss, rtol=1e-4)
    np.testing.assert_allclose(got, policy + 0.7 * value_loss - 0.03 * entropy.mean(), rtol=1e-4)


@pytest.mark.parametrize("changes", [{}, {"td_lambda": 0.8}], ids=["V-trace", "TD(lambda)"])
def test_no_gradient_reaches_a_value_target(env, changes):
    """What pulls the critic is `value - target` alone: its gradient is that of the error times the gradient of the value."""
    cfg = dataclasses.replace(SMALL, vf_coef=1.0, ent_coef=0.0, **changes)
    state, rollout = impala.collect(impala_started(env, cfg), env, cfg)
    grads = jax.grad(lambda m: impala.loss(m, rollout, cfg)[0])(state.model)
    said, next_value = revisit(state.model, rollout)
    discount = jnp.where(rollout.terminated, 0.0, cfg.gamma)
    goes_on = jnp.where(rollout.terminated | rollout.truncated, 0.0, 1.0)
    target = rl.collect.vtrace(jnp.zeros_like(said.value), rollout.reward, said.value, next_value, discount, goes_on).target
    if changes:
        target = rl.collect.lambda_returns(rollout.reward, next_value, discount, 0.8 * goes_on)
    np.testing.assert_allclose(grads.value.bias[0], (said.value - target).mean(), rtol=1e-4)


def test_upgo_is_a_second_policy_loss(env):
    state, rollout = impala.collect(impala_started(env, SMALL), env, SMALL)
    without = impala.loss(state.model, rollout, SMALL)[1]
    both = impala.loss(state.model, rollout, dataclasses.replace(SMALL, upgo_coef=2.0))[1]
    said, next_value = revisit(state.model, rollout)
    discount = jnp.where(rollout.terminated, 0.0, SMALL.gamma)
    goes_on = jnp.where(rollout.terminated | rollout.truncated, 0.0, 1.0)
    extra = -(rl.collect.upgo(rollout.reward, said.value, next_value, discount, goes_on) * said.log_prob).mean()
    np.testing.assert_allclose(both["train/policy_loss"] - without["train/policy_loss"], 2.0 * extra, rtol=1e-3)
    np.testing.assert_allclose(both["train/value_loss"], without["train/value_loss"], rtol=1e-5)


def test_each_verb_compiles_once(env):
    state, counts = impala_started(env, SMALL), []
    for _ in range(5):
        state, rollout = impala.collect(state, env, SMALL)
        state, _ = impala.update(state, rollout, SMALL)
        counts.append((impala._collect_in_graph._cache_size(), impala._update._cache_size()))
    assert counts[0] == counts[-1]


def test_a_gradient_that_is_not_finite_changes_no_weight(env):
    state, rollout = impala.collect(impala_started(env, SMALL), env, SMALL)
    after, metrics = impala.update(state, rollout._replace(reward=jnp.full_like(rollout.reward, jnp.nan)), SMALL)
    assert metrics["train/skipped"] == 1
    assert eqx.tree_equal(after.model, state.model)


def test_a_state_is_saved_and_loaded_whole(env, tmp_path):
    state, _ = impala.train(impala_started(env, SMALL), env, SMALL, 2)
    rl.save(tmp_path / "state.safetensors", state)
    loaded = rl.load(tmp_path / "state.safetensors", like=jax.eval_shape(lambda: impala_started(env, SMALL)))
    with jax.debug_key_reuse(False):
        one, other = (impala.train(s, env, SMALL, 2)[0] for s in (state, loaded))
    assert eqx.tree_equal(one.model, other.model)


def test_a_host_environment_trains_too():
    env = rl.GymVecEnv("CartPole-v1", num_envs=2)
    state, metrics = impala.train(impala_started(env, SMALL), env, SMALL, 3)
    assert np.isfinite(metrics["train/loss"]).all()
    env.close()


@pytest.mark.parametrize("actions", ["discrete", "continuous"])
@pytest.mark.parametrize("names", [("ProbeConstant", "ProbeObservation", "ProbeDiscount"), ("ProbeAction", "ProbeContext")])
def test_impala_learns_the_known_value_and_the_right_action(names, actions):
    gamma = 0.5
    cfg = impala.Config(num_steps=16, lr=rl.Linear(1e-2, 1e-3, 400), gamma=gamma, ent_coef=0.0)
    probes = tuple(rl.make(name, actions=actions) for name in names)
    for number, name in enumerate(names):
        env = rl.VecEnv(AnyOf(jnp.int32(number), probes), num_envs=16)
        state, _ = impala.train(impala_started(env, cfg), env, cfg, num_updates=400)
        seen = jnp.array(PROBES.get(name, [[0.0]]))
        value = jax.vmap(lambda obs, policy=state.policy: policy(obs)[1])(seen)
        np.testing.assert_allclose(value, probes[number].optimal_value(seen, gamma), atol=0.1, err_msg=name)
        if name != "ProbeObservation":  # whose returns are what was seen
            played = rl.evaluate(state.policy, env, 64, key=jax.random.key(3))
            assert float(played.mean) == 1.0, f"{name}: the greedy policy is right everywhere"


def test_a_truncated_episode_is_bootstrapped():
    gamma = 0.9
    env = rl.VecEnv(Loop(max_steps=10), num_envs=4)
    cfg = impala.Config(num_steps=20, lr=1e-2, gamma=gamma)
    state, _ = impala.train(impala_started(env, cfg), env, cfg, num_updates=300)
    value = float(state.policy(jnp.ones(1))[1])
    watched = (1 - gamma**10) / (1 - gamma)
    assert abs(value - 1 / (1 - gamma)) < 0.5 < 1 / (1 - gamma) - watched, "10, not the 6.5 of ten steps"


def test_bad_settings_are_named():
    for changes, message in (
        ({"num_steps": 0}, r"impala\.Config\.num_steps = 0 must be a positive integer"),
        ({"clip_rho": 0.0}, r"impala\.Config\.clip_rho = 0\.0 must be positive"),
        ({"td_lambda": 1.5}, r"impala\.Config\.td_lambda = 1\.5 must be in \[0, 1\], or None for V-trace"),
    ):
        with pytest.raises(rl.ConfigError, match=message):
            impala.Config(**changes)
