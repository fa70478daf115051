"""PPO's verbs: what each promises, for every kind of model and environment."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rl4jax as rl
from rl4jax import ppo
from rl4jax.algo.minibatch import pick
from rl4jax.collect import play
from tests.algo.small import Mixed, started

SMALL = ppo.Config(num_steps=16, num_minibatches=2, update_epochs=2)


@pytest.fixture(scope="module")
def env():
    return rl.VecEnv(rl.envs.CartPole(), num_envs=4)


@pytest.fixture(scope="module")
def played(env):
    """A state with its first rollout."""
    return ppo.collect(started(env, SMALL), env, SMALL)


@pytest.fixture
def one_state_twice():
    """Two ways on from one state share its key, on purpose: the check for reused keys is off."""
    with jax.debug_key_reuse(False):
        yield


def same(a, b):
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(
        np.array_equal(*(jax.random.key_data(x) if rl.core.contract.is_key(x) else x for x in pair), equal_nan=True) for pair in leaves
    )


@pytest.mark.usefixtures("one_state_twice")
def test_each_verb_compiles_once(env, played):
    state, rollout = played
    counts = []
    for _ in range(10):
        state, rollout = ppo.collect(state, env, SMALL)
        state, _ = ppo.update(state, rollout, SMALL)
        counts.append((ppo._collect_in_graph._cache_size(), ppo._update._cache_size()))
    assert counts[0] == counts[-1], "from the first round on"
    state, rollout = ppo.collect(state, env, dataclasses.replace(SMALL, clip_eps=0.1))
    ppo.update(state, rollout, dataclasses.replace(SMALL, clip_eps=0.1, lr=1e-3))
    assert (ppo._collect_in_graph._cache_size(), ppo._update._cache_size()) == counts[-1], "a new number compiles nothing"


def test_on_the_host_each_program_compiles_once_too():
    env = rl.GymVecEnv("CartPole-v1", num_envs=4)
    state, counts = started(env, SMALL), []
    for _ in range(10):
        state, rollout = ppo.collect(state, env, SMALL)
        state, _ = ppo.update(state, rollout, SMALL)
        counts.append([program._cache_size() for program in (play.choose_on_host, play._judge_on_host, play._noise_on_host, ppo._update)])
    assert counts[1] == counts[-1], "the first carries of a host environment may be NumPy's"


def test_the_first_epoch_begins_with_a_ratio_of_one(played):
    state, rollout = played
    batch, _ = ppo.prepare(state, rollout, SMALL)
    flat = jax.tree.map(lambda x: x.reshape(64, *x.shape[2:]), batch)
    _, metrics = ppo.loss(state.model, flat, SMALL)
    assert abs(float(metrics["train/approx_kl"])) < 1e-6
    assert metrics["train/clip_fraction"] == 0


def test_targets_are_detached(played):
    """The gradient of the loss does not reach the advantages, the targets or the old values."""
    state, rollout = played
    batch, _ = ppo.prepare(state, rollout, SMALL)

    def through_the_rollout(value):
        batch, _ = ppo.prepare(state, rollout._replace(value=value), SMALL)
        return batch.advantage.sum() + batch.target.sum() + batch.value.sum()

    assert (jax.grad(through_the_rollout)(rollout.value) == 0).all()


@pytest.mark.usefixtures("one_state_twice")
def test_the_loop_and_train_are_the_same_run(env):
    state = started(env, SMALL)
    whole, curve = ppo.train(state, env, SMALL, 3)
    for _ in range(3):
        state, rollout = ppo.collect(state, env, SMALL)
        state, metrics = ppo.update(state, rollout, SMALL)
    for a, b in zip(state.packed.params.values(), whole.packed.params.values(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    np.testing.assert_allclose(curve["train/loss"][-1], metrics["train/loss"], rtol=1e-3)
    assert curve["rollout/avg_return"].shape == (3,)
    assert int(whole.num_updates) == 3


@pytest.mark.usefixtures("one_state_twice")
def test_seeds_and_learning_rates_run_side_by_side(env):
    def run(key, lr):
        cfg = dataclasses.replace(SMALL, lr=lr)
        model_key, key = jax.random.split(key)
        state = ppo.init(rl.nn.ActorCritic(env, key=model_key, hidden=(16,)), env, cfg, key=key)
        state, metrics = ppo.train(state, env, cfg, 2)
        return state.packed.params, metrics["train/lr"]

    keys, rates = jax.random.split(jax.random.key(0), 2), jnp.array([0.0, 1e-2])
    params, seen = jax.vmap(run)(keys, rates)
    assert seen[:, 0].tolist() == pytest.approx([0.0, 1e-2])
    alone, _ = run(keys[1], 1e-2)
    for name, one in alone.items():
        np.testing.assert_allclose(params[name][1], one, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "network"),
    [
        (lambda: rl.VecEnv(Mixed(), num_envs=4), {"core": "lstm", "shared": True}),
        (lambda: rl.VecEnv(Mixed(), num_envs=4), {"squash": True, "log_std": "model"}),
        (lambda: rl.VecEnv(rl.envs.GridWorld(), num_envs=4), {"core": "gru"}),
        (lambda: rl.GymVecEnv(lambda: rl.to_gymnasium(Mixed()), num_envs=4), {"core": "gru"}),
    ],
    ids=["mixed-lstm", "mixed-squashed", "masked-gru", "mixed-host"],
)
def test_masks_memory_and_every_action_space_go_together(make, network):
    env = make()
    cfg = dataclasses.replace(SMALL, normalize_obs=True, normalize_reward=True, target_kl=0.5, dual_clip_coef=3.0)
    state = started(env, cfg, **network)
    before = state.packed.params
    for _ in range(2):
        state, rollout = ppo.collect(state, env, cfg)
        state, metrics = ppo.update(state, rollout, cfg)
    assert all(jnp.isfinite(x) for name, x in metrics.items() if name != "train/explained_variance")
    assert metrics["train/skipped"] == 0
    moved = [bool((x != before[name]).any()) for name, x in state.packed.params.items()]
    assert all(moved), "every weight is trained"
    action, carry = ppo.act(state.policy, jax.tree.map(lambda x: x[0], state.playing.obs))
    assert (carry is None) == ("core" not in network)


def test_act_is_greedy_without_a_key_and_obeys_the_mask(getkey):
    env = rl.VecEnv(rl.envs.GridWorld(), num_envs=1)
    model = rl.nn.ActorCritic(env, key=getkey(), hidden=(8,))
    obs = jnp.zeros(env.single_observation_space.shape)
    greedy, _ = ppo.act(model, obs)
    assert greedy == ppo.act(model, obs)[0]
    only = jnp.arange(4) == 2
    assert ppo.act(model, obs, None, only)[0] == 2
    assert all(ppo.act(model, obs, None, only, key=key)[0] == 2 for key in jax.random.split(getkey(), 3))


def test_normalisation_is_part_of_the_policy_and_returns_stay_raw():
    env = rl.VecEnv(rl.envs.Pendulum(max_steps=8), num_envs=4)
    cfg = dataclasses.replace(SMALL, normalize_obs=True, normalize_reward=True)
    state = started(env, cfg)
    state, first = ppo.collect(state, env, cfg)
    state, _ = ppo.update(state, first, cfg)
    np.testing.assert_allclose(state.obs_stats.mean, first.obs.reshape(-1, 3).mean(0), atol=1e-5)
    np.testing.assert_allclose(state.obs_stats.var, first.obs.reshape(-1, 3).var(0), atol=1e-5)
    state, second = ppo.collect(state, env, cfg)
    seen = (second.obs[0, 0] - state.obs_stats.mean) / np.sqrt(state.obs_stats.var + 1e-8)
    np.testing.assert_allclose(second.value[0, 0], state.model(seen)[1], atol=1e-5)
    np.testing.assert_allclose(second.value[0, 0], state.policy(second.obs[0, 0])[1], atol=1e-5)
    rewards = np.concatenate([first.reward, second.reward])
    np.testing.assert_allclose(
        sorted(first.episode_returns() + second.episode_returns()), sorted(rewards.reshape(4, 8, 4).sum(1).ravel()), rtol=1e-5
    )
    assert bool(state.policy.stats.frozen)


def test_rewards_are_scaled_by_the_spread_of_discounted_returns():
    env = rl.VecEnv(rl.envs.Pendulum(max_steps=8), num_envs=2)
    cfg = ppo.Config(num_steps=12, num_minibatches=1, normalize_reward=True)
    state, rollout = ppo.collect(started(env, cfg), env, cfg)
    returns, so_far = [], np.zeros(2)
    for t in range(12):
        so_far = so_far * cfg.gamma + np.asarray(rollout.reward[t], np.float64)
        returns.append(so_far)
        so_far = np.where(rollout.ended[t], 0.0, so_far)
    scaled, scale = state.reward_scale.apply(rollout, cfg.gamma)
    np.testing.assert_allclose(scaled, np.clip(rollout.reward / np.std(returns), -10, 10), rtol=1e-4)
    np.testing.assert_allclose(scale.discounted_return, so_far, rtol=1e-4)


@pytest.mark.usefixtures("one_state_twice")
def test_target_kl_stops_the_epochs(env, played):
    state, rollout = played
    cfg = dataclasses.replace(SMALL, lr=0.05, update_epochs=8)
    _, free = ppo.update(state, rollout, cfg)
    stopped_state, stopped = ppo.update(state, rollout, dataclasses.replace(cfg, target_kl=1e-3))
    assert free["train/epochs"] == 8
    assert 1 <= float(stopped["train/epochs"]) < 8
    _, once = ppo.update(state, rollout, dataclasses.replace(cfg, target_kl=1e-9))
    assert once["train/epochs"] == 1, "the first epoch always runs"
    assert float(stopped["train/approx_kl"]) < float(free["train/approx_kl"])


@pytest.mark.usefixtures("one_state_twice")
def test_your_own_optimizer_replaces_ours(env):
    opt = optax.sgd(0.1)
    state = started(env, SMALL, opt=opt)
    state, rollout = ppo.collect(state, env, SMALL)
    updated, metrics = ppo.update(state, rollout, SMALL, opt)
    assert metrics["train/skipped"] == 0
    assert not same(updated.packed.params, state.packed.params)
    _, curve = ppo.train(state, env, SMALL, 2, opt)
    assert curve["train/loss"].shape == (2,)


@pytest.mark.usefixtures("one_state_twice")
def test_schedules_count_updates(env, played):
    state, rollout = played
    for lr in (rl.Linear(1e-3, 0.0, num_updates=2), optax.linear_schedule(1e-3, 0.0, 2)):
        cfg = dataclasses.replace(SMALL, lr=lr)
        now, seen = state, []
        for _ in range(3):
            now, metrics = ppo.update(now, rollout, cfg)
            seen.append(float(metrics["train/lr"]))
        assert seen == pytest.approx([1e-3, 5e-4, 0.0])


@pytest.mark.usefixtures("one_state_twice")
def test_a_loss_that_is_not_finite_changes_nothing_and_is_counted(played):
    state, rollout = played
    bad = rollout._replace(reward=rollout.reward.at[3, 1].set(jnp.nan))
    after, metrics = ppo.update(state, bad, SMALL)
    assert metrics["train/skipped"] == 1
    assert same((after.packed, after.opt_state), (state.packed, state.opt_state))
    assert int(after.num_updates) == int(state.num_updates) + 1
    _, metrics = ppo.update(after, rollout, SMALL)
    assert metrics["train/skipped"] == 0, "and training goes on"


@pytest.mark.usefixtures("one_state_twice")
def test_reduce_sees_gradients_and_metrics(played):
    state, rollout = played
    half, _ = ppo.update(state, rollout, SMALL, reduce=no_gradients)
    assert same(half.packed.params, state.packed.params)


def no_gradients(tree):
    return jax.tree.map(jnp.zeros_like, tree)


def test_dead_slots_do_not_reach_the_loss(played):
    state, rollout = played
    dead = rollout.valid.at[5, 2].set(False)
    wrong = rollout._replace(reward=rollout.reward.at[5, 2].set(1e6), log_prob=rollout.log_prob.at[5, 2].set(-50.0), valid=dead)
    batch, _ = ppo.prepare(state, wrong._replace(truncated=rollout.truncated.at[4, 2].set(True)), SMALL)
    flat = jax.tree.map(lambda x: x.reshape(64, *x.shape[2:]), batch)
    kept = jax.tree.map(lambda x: x[np.asarray(flat.valid)], flat)
    for a, b in zip(ppo.loss(state.model, flat, SMALL)[1].values(), ppo.loss(state.model, kept, SMALL)[1].values(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_a_minibatch_of_nothing_but_dead_slots_teaches_nothing(played):
    state, rollout = played
    batch = pick(ppo.prepare(state, rollout, SMALL)[0], None, jnp.arange(8))[0]
    nothing = batch._replace(valid=jnp.zeros(8, bool))
    grads, metrics = eqx.filter_grad(ppo.loss, has_aux=True)(state.model, nothing, SMALL)
    assert all(float(x) == 0 for x in metrics.values())
    assert all((g == 0).all() for g in jax.tree.leaves(grads))


class Wrong(eqx.Module):
    """Returns what it is told to."""

    answer: object = eqx.field(static=True)

    def __call__(self, obs):
        return self.answer()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda: jnp.zeros(2), r"must return \(distribution, value\)"),
        (lambda: (jnp.zeros(2), jnp.zeros(())), "not a distribution.*rl.nn.Categorical"),
        (lambda: (rl.nn.Categorical(jnp.zeros(2)), jnp.zeros(1)), r"value of shape \(1,\).*scalar"),
        (lambda: (rl.nn.Categorical(jnp.zeros(3)), jnp.zeros(())), "has 3 numbers for the choices of Discrete.2., which has 2"),
        (lambda: (rl.nn.Normal(jnp.zeros(2), jnp.zeros(2)), jnp.zeros(())), r"actions float32\[2\].*int32\[\]"),
    ],
)
def test_a_model_with_the_wrong_output_is_told_what_is_wrong(env, answer, said):
    with pytest.raises((rl.ShapeError, TypeError), match=said):
        ppo.init(Wrong(answer), env, SMALL, key=jax.random.key(0))


@pytest.mark.usefixtures("one_state_twice")
def test_minibatches_must_divide_the_batch(env, played):
    state, rollout = played
    with pytest.raises(
        rl.ConfigError, match=r"num_minibatches = 5 must divide num_steps \* num_envs = 64. Choose one of \[1, 2, 4, 8, 16, 32, 64\]"
    ):
        ppo.update(state, rollout, dataclasses.replace(SMALL, num_minibatches=5))
    recurrent = dataclasses.replace(SMALL, num_minibatches=8)
    with pytest.raises(rl.ConfigError, match=r"whole environments\) = 4. Choose one of \[1, 2, 4\]"):
        started(env, recurrent, core="gru")


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("num_steps", 0, "a positive integer"),
        ("gamma", 1.5, "in [0, 1]"),
        ("gae_lambda", jnp.float32(2), "in [0, 1]"),
        ("lr", float("inf"), "zero or more"),
        ("lr", rl.Linear(-1e-3, 0.0, 10), "zero or more"),
        ("clip_eps", -0.1, "positive"),
        ("dual_clip_coef", 0.5, "greater than 1"),
        ("lr", -1.0, "zero or more, or a schedule"),
    ],
)
def test_settings_out_of_range_are_refused(field, value, rule):
    with pytest.raises(rl.ConfigError, match=re.escape(f"ppo.Config.{field} = {value!r} must be {rule}")):
        ppo.Config(**{field: value})


def test_a_short_run_gives_the_weights_it_always_gave(env):
    """Not a claim of correctness: whoever changes results sees it here, and says so in the CHANGELOG."""
    state, _ = ppo.train(started(env, SMALL), env, SMALL, 2)
    sizes = [float(jnp.abs(x).sum()) for x in jax.tree.leaves(eqx.filter(state.model, eqx.is_array))]
    assert sizes == pytest.approx([18.746, 0.0027, 18.5501, 0.032, 0.0785, 0.0004, 3.3614, 0.002], abs=2e-4)


def test_a_checkpoint_fits_a_model_whose_fields_changed_places(env, tmp_path):
    class Forward(eqx.Module):
        def __call__(self, obs):
            hidden = jnp.tanh(self.second(jnp.tanh(self.first(obs))))
            return rl.nn.Categorical(self.policy(hidden)), self.value(hidden)[0]

    class Before(Forward):
        policy: eqx.nn.Linear
        value: eqx.nn.Linear
        first: eqx.nn.Linear
        second: eqx.nn.Linear

    class After(Forward):
        second: eqx.nn.Linear
        first: eqx.nn.Linear
        value: eqx.nn.Linear
        policy: eqx.nn.Linear

    def state_of(kind, seed):
        *keys, init_key = jax.random.split(jax.random.key(seed), 5)
        sizes = {"policy": 2, "value": 1, "first": 4, "second": 4}
        layers = {name: eqx.nn.Linear(4, size, key=key) for (name, size), key in zip(sizes.items(), keys, strict=True)}
        return ppo.init(kind(**layers), env, SMALL, key=init_key)

    state = state_of(Before, 0)
    rl.save(tmp_path / "state.safetensors", state)
    loaded = rl.load(tmp_path / "state.safetensors", state_of(After, 1))
    obs = jnp.ones(4)
    np.testing.assert_array_equal(loaded.model(obs)[0].logits, state.model(obs)[0].logits)


@pytest.mark.usefixtures("one_state_twice")
@pytest.mark.parametrize("setting", ["normalize_obs", "normalize_reward"])
def test_settings_that_the_state_was_not_begun_with_are_refused(played, setting):
    with pytest.raises(rl.ConfigError, match=f"cfg.{setting} = True must be False, as it was for ppo.init"):
        ppo.update(*played, dataclasses.replace(SMALL, **{setting: True}))


@pytest.mark.usefixtures("one_state_twice")
def test_an_optimizer_that_the_state_was_not_begun_with_is_refused(played, env):
    with pytest.raises(rl.ConfigError, match=r"opt is not the optimizer that ppo\.init was given"):
        ppo.update(*played, SMALL, optax.sgd(0.1))
    state = ppo.init(rl.nn.ActorCritic(env, key=jax.random.key(0), hidden=(8,)), env, SMALL, key=jax.random.key(1), opt=optax.sgd(0.1))
    state, rollout = ppo.collect(state, env, SMALL)
    with pytest.raises(rl.ConfigError, match="opt is missing"):
        ppo.update(state, rollout, SMALL)


@pytest.mark.usefixtures("one_state_twice")
def test_a_state_goes_on_in_its_own_environments_only(played):
    state, _ = played
    with pytest.raises(rl.EnvError, match="plays in 4 environments in-graph, but env has 3 in-graph"):
        ppo.collect(state, rl.VecEnv(rl.envs.CartPole(), num_envs=3), SMALL)
    with pytest.raises(rl.EnvError, match="but env has 4 on the host"):
        ppo.collect(state, rl.GymVecEnv("CartPole-v1", num_envs=4), SMALL)
