"""Behavioral cloning: its loss in closed form, and what each verb promises."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax import bc
from rl4jax.algo import epochs
from tests.algo.small import Mixed, started
from tests.algo.tables import Head, Table, softmax

CFG = bc.Config(batch_size=8)


def made(model, data, cfg=CFG, opt=None, seed=0):
    return bc.init(model, data, cfg, key=jax.random.key(seed), opt=opt)


@pytest.fixture
def one_state_twice():
    """Two ways on from one state share its key, on purpose: the check for reused keys is off."""
    with jax.debug_key_reuse(False):
        yield


@pytest.mark.parametrize("choices", [2, 3, 7])
def test_a_uniform_policy_loses_the_logarithm_of_the_number_of_choices(choices):
    data = bc.from_arrays(np.zeros(5, int), np.arange(5) % choices)
    loss, metrics = bc.loss(Table(np.full((1, choices), 4.0)), data, CFG)
    assert float(loss) == pytest.approx(math.log(choices), rel=1e-6)
    assert float(metrics["train/loss"]) == float(loss)
    assert float(metrics["train/entropy"]) == pytest.approx(math.log(choices), rel=1e-6)


def test_the_loss_is_the_cross_entropy_over_what_the_mask_allows(getkey):
    logits = np.array([[0.3, -1.0, 2.0], [1.5, 0.0, -0.5]])
    mask = np.array([[True, True, False], [True, True, True], [True, False, True]])
    obs, action = np.array([0, 1, 1]), np.array([1, 0, 2])
    data = bc.from_arrays(obs, action, mask)
    loss, metrics = bc.loss(Table(logits), data, CFG)
    probs = softmax(logits[obs], mask)
    assert float(loss) == pytest.approx(-np.log(probs[np.arange(3), action]).mean(), rel=1e-5)
    assert float(metrics["train/accuracy"]) == pytest.approx((np.where(mask, logits[obs], -9).argmax(-1) == action).mean())
    unmasked, _ = bc.loss(Table(logits), data._replace(mask=None), CFG)
    assert float(unmasked) > float(loss)


def test_the_gradient_is_the_difference_between_what_is_done_and_what_was_done():
    logits, action = np.array([[0.3, -1.0, 2.0]]), np.array([1, 1, 0])
    data = bc.from_arrays(np.zeros(3, int), action)
    got = jax.grad(lambda x: bc.loss(Table(x), data, CFG)[0])(jnp.asarray(logits))
    np.testing.assert_allclose(got[0], softmax(logits)[0] - np.eye(3)[action].mean(0), atol=1e-6)


def test_several_heads_add_up_and_have_accuracies_of_their_own():
    x = np.array([0.5, -0.5, 1.0, 0.0, 3.0])
    model = Head(jnp.asarray(x, jnp.float32), lambda x: rl.nn.MultiCategorical(x, (2, 3)))
    action = np.array([[0, 2], [1, 2], [0, 0], [0, 2]])
    loss, metrics = bc.loss(model, bc.from_arrays(np.zeros((4, 1)), action), CFG)
    first, second = softmax(x[:2]), softmax(x[2:])
    assert float(loss) == pytest.approx(-(np.log(first[action[:, 0]]) + np.log(second[action[:, 1]])).mean(), rel=1e-5)
    assert float(metrics["train/accuracy"]) == 0.5, "the whole action"
    assert float(metrics["train/accuracy/0"]) == 0.75
    assert float(metrics["train/accuracy/1"]) == 0.75


def test_continuous_actions_lose_minus_their_log_density():
    mean, log_std = np.array([0.5, -1.0]), np.array([0.2, -0.3])
    model = Head(jnp.asarray(np.concatenate([mean, log_std]), jnp.float32), lambda x: rl.nn.Normal(x[:2], x[2:]))
    action = np.array([[0.0, 0.0], [1.0, -1.0], [0.5, 2.0]])
    loss, metrics = bc.loss(model, bc.from_arrays(np.zeros((3, 1)), action), CFG)
    density = -0.5 * ((action - mean) / np.exp(log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
    assert float(loss) == pytest.approx(-density.sum(1).mean(), rel=1e-5)
    assert float(metrics["train/mse"]) == pytest.approx(((action - mean) ** 2).mean(), rel=1e-5)
    assert "train/accuracy" not in metrics


def test_a_step_of_your_own_optimizer_is_exact():
    data = bc.from_arrays(np.zeros(4, int), np.array([0, 0, 1, 0]))
    opt, model = optax.sgd(0.5), Table(np.array([[0.0, 1.0]]))
    state, metrics = bc.update(made(model, data, opt=opt), data, CFG, opt)
    gradient = softmax([0.0, 1.0]) - np.array([0.75, 0.25])
    np.testing.assert_allclose(state.model.logits[0], np.array([0.0, 1.0]) - 0.5 * gradient, atol=1e-6)
    assert float(metrics["train/grad_norm"]) == pytest.approx(np.linalg.norm(gradient), rel=1e-5)
    assert (state.model.value == 0).all(), "the critic learns nothing"


@pytest.mark.usefixtures("one_state_twice")
def test_reduce_sees_gradients_and_metrics():
    data = bc.from_arrays(np.zeros(4, int), np.array([0, 0, 1, 0]))
    state = made(Table(np.zeros((1, 2))), data)
    after, metrics = bc.update(state, data, CFG, reduce=nothing)
    assert (after.model.logits == 0).all()
    assert float(metrics["train/loss"]) == 0


def nothing(tree):
    return jax.tree.map(jnp.zeros_like, tree)


@pytest.mark.usefixtures("one_state_twice")
def test_update_compiles_once_and_a_new_number_compiles_nothing():
    data = bc.from_arrays(np.zeros(4, int), np.array([0, 0, 1, 0]))
    state, sizes = made(Table(np.zeros((1, 2))), data), []
    for lr in (1e-3, 1e-3, 1e-2):
        state, metrics = bc.update(state, data, dataclasses.replace(CFG, lr=lr))
        sizes.append(epochs._update._cache_size())
        assert float(metrics["train/lr"]) == pytest.approx(lr)
    assert len(set(sizes)) == 1
    assert int(state.num_updates) == 3


@pytest.fixture(scope="module")
def crowd():
    """Demonstrations of every kind of action at once, with masks, that can be imitated: choices follow from the sign that is seen."""
    env = rl.VecEnv(Mixed(), num_envs=16)
    cfg = rl.ppo.Config(num_steps=12, num_minibatches=1)
    data = bc.from_rollouts(rl.ppo.collect(started(env, cfg), env, cfg)[1])
    up = data.obs["sign"][:, 0] > 0
    move = jnp.stack([up, up], 1).astype(jnp.int32)
    push = jnp.where(up[:, None], 0.5, -0.5) * jnp.ones((1, 2))
    return env, data._replace(action={"move": move, "pair": (jnp.zeros(len(up), jnp.int32), push)})


@pytest.mark.parametrize("network", [{}, {"squash": True, "log_std": "model"}], ids=["normal", "squashed"])
def test_every_kind_of_action_is_learned_at_once(crowd, network):
    env, data = crowd
    cfg = bc.Config(batch_size=32, lr=3e-3)
    state = made(rl.nn.ActorCritic(env, key=jax.random.key(1), hidden=(16,), **network), data, cfg)
    state, metrics = bc.train(state, data, cfg, 30)
    assert all(x.shape == (30,) for x in metrics.values())
    assert float(metrics["eval/accuracy"][-1]) == 1
    assert set(metrics) >= {f"{kind}/accuracy/{head}" for kind in ("train", "eval") for head in ("move/0", "move/1", "pair/0")}
    assert float(metrics["eval/mse"][-1]) < 0.05 < float(metrics["eval/mse"][0])
    assert float(metrics["eval/loss"][-1]) < float(metrics["eval/loss"][0])
    assert not metrics["train/skipped"].any()
    action, _ = bc.act(state.policy, jax.tree.map(lambda x: x[0], data.obs), mask=data.mask[0])
    assert jax.tree.structure(action) == jax.tree.structure(data.action)


@pytest.fixture(scope="module")
def line():
    """Left of zero 0, right of it 1."""
    obs = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    return bc.from_arrays(obs, (obs[:, 0] > 0).astype(int))


def small(key):
    return rl.nn.ActorCritic(rl.VecEnv(Line(), 1), key=key, hidden=(8,))


class Line(rl.AbstractEnv):
    """Only its spaces matter."""

    @property
    def observation_space(self):
        return spaces.Box(-9, 9, (2,), np.float32)

    @property
    def action_space(self):
        return spaces.Discrete(2)

    def reset(self, key):
        return jnp.int32(0), jnp.zeros(2)

    def step(self, state, action, key):
        return state, rl.Step(jnp.zeros(2), jnp.float32(0), jnp.array(True), jnp.array(False))


@pytest.mark.usefixtures("one_state_twice")
def test_train_is_the_loop_of_updates_over_the_same_batches(line):
    state = made(small(jax.random.key(1)), line)
    whole, metrics = bc.train(state, line, CFG, 1)
    learned, unseen = epochs.split(60, CFG.holdout)
    key, order_key = jax.random.split(state.key)
    losses = []
    for chosen in epochs.in_batches(len(learned), CFG.batch_size, order_key):
        state, row = bc.update(state, epochs.take(line, learned[chosen]), CFG)
        losses.append(float(row["train/loss"]))
    for name, x in state.packed.params.items():
        np.testing.assert_allclose(x, whole.packed.params[name], atol=1e-5)
    assert float(metrics["train/loss"][0]) == pytest.approx(np.mean(losses), rel=1e-4)
    held_out, at_end = bc.loss(whole.model, epochs.take(line, unseen), CFG)
    assert float(metrics["eval/loss"][0]) == pytest.approx(float(held_out), rel=1e-4)
    assert float(metrics["eval/accuracy"][0]) == pytest.approx(float(at_end["train/accuracy"]))
    assert int(whole.num_updates) == len(losses) == 7


@pytest.mark.usefixtures("one_state_twice")
def test_seeds_and_learning_rates_run_side_by_side(line):
    def run(key, lr):
        model_key, key = jax.random.split(key)
        cfg = dataclasses.replace(CFG, lr=lr)
        state = bc.init(small(model_key), line, cfg, key=key)
        state, metrics = bc.train(state, line, cfg, 2)
        return state.packed.params, metrics["eval/loss"]

    keys, rates = jax.random.split(jax.random.key(0), 2), jnp.array([0.0, 1e-2])
    params, losses = jax.vmap(run)(keys, rates)
    assert losses.shape == (2, 2)
    alone, _ = run(keys[1], 1e-2)
    for name, x in alone.items():
        np.testing.assert_allclose(params[name][1], x, atol=1e-4)


@pytest.mark.usefixtures("one_state_twice")
def test_a_saved_state_goes_on_as_if_nothing_had_happened(line, tmp_path):
    state, _ = bc.train(made(small(jax.random.key(1)), line), line, CFG, 1)
    rl.save(tmp_path / "state.safetensors", state)
    loaded = rl.load(tmp_path / "state.safetensors", like=made(small(jax.random.key(2)), line, seed=3))
    there, here = bc.train(loaded, line, CFG, 1)[0], bc.train(state, line, CFG, 1)[0]
    for name, x in here.packed.params.items():
        np.testing.assert_array_equal(x, there.packed.params[name])


def test_schedules_count_gradient_steps(line):
    cfg = dataclasses.replace(CFG, lr=rl.Linear(7e-3, 0.0, 7), holdout=0.1)
    _, metrics = bc.train(made(small(jax.random.key(1)), line, cfg), line, cfg, 2)
    np.testing.assert_allclose(metrics["train/lr"], [np.mean(np.arange(7, 0, -1)) * 1e-3, 0.0], atol=1e-8)


@pytest.mark.usefixtures("one_state_twice")
def test_a_batch_that_is_not_finite_changes_nothing_and_is_counted(line):
    state = made(small(jax.random.key(1)), line)
    bad = line._replace(obs=line.obs.at[3, 0].set(jnp.nan))
    after, metrics = bc.update(state, bad, CFG)
    assert metrics["train/skipped"] == 1
    for name, x in state.packed.params.items():
        np.testing.assert_array_equal(x, after.packed.params[name])
    assert bc.update(after, line, CFG)[1]["train/skipped"] == 0, "and training goes on"


def test_without_a_held_out_share_there_is_no_evaluation(line):
    cfg = dataclasses.replace(CFG, holdout=0.0)
    _, metrics = bc.train(made(small(jax.random.key(1)), line, cfg), line, cfg, 1)
    assert not [name for name in metrics if name.startswith("eval/")]


def test_statistics_of_a_normalised_policy_are_not_learned(line):
    stats = rl.RunningStats.like(jnp.zeros(2)).update(line.obs).freeze()
    policy = rl.nn.Normalized(small(jax.random.key(1)), stats)
    state, _ = bc.train(made(policy, line), line, CFG, 2)
    np.testing.assert_array_equal(state.model.stats.mean, stats.mean)
    np.testing.assert_array_equal(state.model.stats.var, stats.var)
    assert not np.array_equal(state.model.model.policy.linear.weight, policy.model.policy.linear.weight)


def test_a_model_with_a_memory_is_refused(line):
    recurrent = rl.nn.ActorCritic(rl.VecEnv(Line(), 1), key=jax.random.key(0), hidden=(8,), core="gru")
    for call in (lambda: made(recurrent, line), lambda: bc.loss(recurrent, line, CFG)):
        with pytest.raises(rl.ConfigError, match=r"ActorCritic is recurrent, and examples are single steps.*Use a feed-forward model"):
            call()


@pytest.mark.usefixtures("one_state_twice")
def test_what_does_not_fit_is_refused_with_a_reason(line):
    model, opt = small(jax.random.key(1)), optax.sgd(0.1)
    with pytest.raises(rl.ShapeError, match=r"each action of data is float32\[1\], but the Categorical of ActorCritic chooses int32\[\]"):
        made(model, line._replace(action=jnp.zeros((60, 1))))
    with pytest.raises(rl.ShapeError, match=r"2 of 60 actions of data cannot be chosen by ActorCritic, the first at 3: 2. It has no such"):
        made(model, line._replace(action=line.action.at[jnp.array([3, 9])].set(2)))
    with pytest.raises(rl.ShapeError, match=r"of 60 actions of data cannot be chosen .* or the mask forbids it"):
        made(model, line._replace(mask=jnp.array([[True, False]]).repeat(60, 0)))
    with pytest.raises(rl.ShapeError, match=r"bc.init: data is .*; all its arrays must have the same number of examples"):
        made(model, line._replace(action=line.action[:9]))
    with pytest.raises(rl.ConfigError, match=r"bc.train: num_epochs = 0 must be a positive integer"):
        bc.train(made(model, line), line, CFG, 0)
    with pytest.raises(rl.ConfigError, match=r"holdout = 0.1 leaves nothing to learn from: there are 1 examples"):
        bc.train(made(model, line), jax.tree.map(lambda x: x[:1], line), CFG, 1)
    with pytest.raises(rl.ConfigError, match=r"bc.update: opt is not the optimizer that bc.init was given"):
        bc.update(made(model, line), line, CFG, opt)
    with pytest.raises(rl.ConfigError, match=r"bc.update: opt is missing: bc.init was given one"):
        bc.train(made(model, line, opt=opt), line, CFG, 1)


def test_a_far_away_continuous_action_is_possible():
    model = Head(jnp.zeros(2), lambda x: rl.nn.Composite({"go": rl.nn.Categorical(x), "x": rl.nn.Normal(x[:1], x[1:])}))
    data = bc.from_arrays(np.zeros((2, 1)), {"go": np.array([0, 1]), "x": np.array([[1e6], [0.0]])})
    made(model, data)
    with pytest.raises(rl.ShapeError, match=r"1 of 2 actions of data cannot be chosen by Head, the first at 1: {'go': 2, 'x': \[0.0\]}"):
        made(model, data._replace(action=data.action | {"go": jnp.array([0, 2])}))
