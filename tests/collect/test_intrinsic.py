"""Exploration bonuses: counts against a dictionary, entropies against numbers, and the surprise of a network before and after it learned."""

import collections
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings, strategies as st

import rl4jax as rl
from rl4jax import ppo
from rl4jax.collect import RND, CountBased, EntropyReduction, IntrinsicReward, combine_rewards
from rl4jax.core.spaces import StaticSpace, struct_of


def seen(next_obs, valid=None):
    """A rollout in which only what was seen matters."""
    shape = jax.tree.leaves(next_obs)[0].shape[:2]
    valid = jnp.ones(shape, bool) if valid is None else jnp.asarray(valid)
    return rl.Rollout(**dict.fromkeys(rl.Rollout._fields))._replace(next_obs=jax.tree.map(jnp.asarray, next_obs), valid=valid)


pay = eqx.filter_jit(lambda explorer, rollout: explorer.reward(rollout))


# Counting


def dict_bonus(counts, obs, resolution, valid):
    """What `CountBased` computes, with a dictionary."""
    bonus = np.zeros(valid.shape)
    for t in range(len(valid)):
        names = [tuple(np.round(x / np.float32(resolution)).astype(int)) for x in obs[t]]
        counts.update(name for name, real in zip(names, valid[t], strict=True) if real)
        bonus[t] = [counts[name] ** -0.5 if real else 0.0 for name, real in zip(names, valid[t], strict=True)]
    return bonus


@settings(deadline=None, max_examples=25)
@given(resolution=st.sampled_from([0.1, 0.5, 2.0]), spread=st.sampled_from([0.5, 3.0]), seed=st.integers(0, 999))
def test_counts_are_those_of_a_dictionary(resolution, spread, seed):
    rng = np.random.default_rng(seed)
    explorer, counts = CountBased(resolution), collections.Counter()
    for _ in range(3):  # rollouts
        obs, valid = (spread * rng.standard_normal((5, 4, 2))).astype(np.float32), rng.random((5, 4)) < 0.9
        bonus, explorer = pay(explorer, seen(obs, valid))
        np.testing.assert_allclose(bonus, dict_bonus(counts, obs, resolution, valid), rtol=1e-6)
    name, number = counts.most_common(1)[0]
    assert int(explorer.count(jnp.asarray(name, jnp.float32) * np.float32(resolution))) == number


def test_the_first_visit_pays_one_and_the_fourth_a_half():
    bonus, explorer = pay(CountBased(0.1), seen(jnp.zeros((4, 1, 2))))
    np.testing.assert_allclose(bonus[:, 0], [1, 2**-0.5, 3**-0.5, 0.5], rtol=1e-6)
    assert isinstance(explorer, IntrinsicReward)


def test_counts_of_all_parts_of_an_observation_and_symbols_as_they_are():
    def obs(place, symbol, pixel):
        return {"place": jnp.array([[place]]), "symbol": jnp.array([[symbol]]), "image": jnp.full((1, 1, 2, 2), pixel, jnp.uint8)}

    explorer = CountBased(10.0)  # far coarser than symbols and pixels
    for known in (obs(1.0, 3, 7), obs(4.0, 3, 7)):  # both places are near 0
        bonus, explorer = pay(explorer, seen(known))
    assert float(bonus[0, 0]) == pytest.approx(2**-0.5)
    for new in (obs(1.0, 4, 7), obs(1.0, 3, 8), obs(60.0, 3, 7), obs(-60.0, 3, 7)):
        bonus, explorer = pay(explorer, seen(new))
        assert float(bonus[0, 0]) == 1.0, new


def test_the_order_of_numbers_tells_observations_apart():
    _, explorer = CountBased(1.0).reward(seen(jnp.array([[[1.0, 2.0, 0.0]]])))
    counts = [int(explorer.count(jnp.array(x))) for x in ([1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 1.0, 2.0], [3.0, 0.0, 0.0])]
    assert counts == [1, 0, 0, 0]


def test_the_sketch_never_counts_too_little_and_seldom_too_much():
    """40,000 different observations once: with 4 tables of 65,536 cells, a share of (1 - exp(-40000 / 65536))^4 is thought to be older."""
    x = jnp.stack(jnp.meshgrid(jnp.arange(200.0), jnp.arange(200.0)), -1).reshape(1, 40_000, 2)
    _, explorer = pay(CountBased(1.0), seen(x))
    counts = jax.vmap(explorer.count)(x[0])
    assert int(counts.min()) == 1
    assert float((counts > 1).mean()) == pytest.approx((1 - np.exp(-40_000 / 2**16)) ** 4, rel=0.1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resolution": 0.0}, r"CountBased: resolution = 0\.0 must be positive"),
        ({"resolution": float("nan")}, "resolution = nan"),
        ({"resolution": 1.0, "num_cells": 0}, r"num_cells = 0 must be a positive integer"),
        ({"resolution": 1.0, "num_hashes": 0}, r"num_hashes = 0 must be a positive integer"),
    ],
)
def test_a_sketch_that_cannot_count_is_refused(settings, message):
    with pytest.raises(rl.ConfigError, match=message):
        CountBased(**settings)


# Entropy


def test_falling_entropy_pays_and_a_new_episode_begins_at_nothing():
    entropy = jnp.array([[2.0, 1.0], [1.5, 3.0], [1.7, 0.5], [0.2, 0.1]])
    is_first = jnp.array([[True, True], [False, False], [False, True], [False, False]])
    bonus, _ = EntropyReduction(2).reward_from_entropy(entropy, is_first)
    np.testing.assert_allclose(bonus, [[0, 0], [0.5, 0], [0, 0], [1.5, 0.4]], atol=1e-6)


def test_the_very_first_entropy_pays_nothing_whatever_it_is():
    bonus, _ = EntropyReduction(1).reward_from_entropy(jnp.array([[-3.0]]), jnp.array([[False]]))
    assert bonus.tolist() == [[0.0]]


def test_the_last_entropy_is_remembered_from_rollout_to_rollout(getkey):
    entropy = jax.random.uniform(getkey(), (8, 3))
    is_first = jax.random.bernoulli(getkey(), 0.2, (8, 3))
    whole, end = EntropyReduction(3).reward_from_entropy(entropy, is_first)
    parts = (entropy.reshape(4, 2, 3), is_first.reshape(4, 2, 3))
    also_end, cut = jax.lax.scan(lambda e, now: e.reward_from_entropy(*now)[::-1], EntropyReduction(3), parts)
    np.testing.assert_array_equal(cut.reshape(8, 3), whole)
    np.testing.assert_array_equal(also_end.previous, end.previous)


def test_entropies_of_other_environments_are_refused():
    with pytest.raises(rl.ShapeError, match=r"entropy has shape \(4, 3\) and is_first \(4, 3\); both must be \[T, B\] with the B = 2"):
        EntropyReduction(2).reward_from_entropy(jnp.ones((4, 3)), jnp.ones((4, 3), bool))
    with pytest.raises(rl.ConfigError, match="num_envs = 0 must be a positive integer"):
        EntropyReduction(0)


# Random network distillation


class Still(rl.AbstractEnv):
    """An environment that shows zeros of some space, for ever."""

    shown: StaticSpace = eqx.field(static=True)
    action_space = spaces.Discrete(2)

    @property
    def observation_space(self):
        return self.shown.space

    def reset(self, key):
        return jnp.zeros(()), jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), struct_of(self.shown.space))

    def step(self, state, action, key):
        return state, rl.Step(self.reset(key)[1], jnp.zeros(()), jnp.zeros((), bool), jnp.zeros((), bool))


def stage(space):
    return rl.VecEnv(Still(StaticSpace(space)), num_envs=4)


BOX = stage(spaces.Box(-np.inf, np.inf, (3,)))


def test_what_is_seen_often_pays_less_and_what_is_new_pays_still(getkey):
    explorer = RND(BOX, key=getkey(), hidden=(16,), num_features=8, lr=3e-3)
    often, never = jnp.array([1.0, -1.0, 0.5]), jnp.array([-2.0, 0.0, 3.0])
    noise = jax.random.normal(getkey(), (60, 8, 4, 3))
    paid = []
    for t in range(60):
        bonus, explorer = pay(explorer, seen(often + 0.3 * noise[t]))
        paid.append(float(bonus.mean()))
    both = jnp.tile(jnp.stack([often, often, never, never]), (8, 1, 1)) + 0.3 * noise[0]
    bonus, _ = pay(explorer, seen(both))
    old, new = float(bonus[:, :2].mean()), float(bonus[:, 2:].mean())
    assert paid[-1] < 0.1 * paid[0]
    assert old < 2 * paid[-1]
    assert new > 10 * old


def test_the_target_network_stays_and_the_predictor_learns(getkey):
    explorer = RND(BOX, key=getkey(), hidden=(16,), num_features=8)
    _, after = pay(explorer, seen(jax.random.normal(getkey(), (8, 4, 3))))
    assert eqx.tree_equal(after.target, explorer.target)
    assert not eqx.tree_equal(after.predictor, explorer.predictor)
    assert isinstance(explorer, IntrinsicReward)


def test_the_bonus_is_the_error_over_the_spread_of_its_discounted_sums(getkey):
    explorer = RND(BOX, key=getkey(), hidden=(16,), num_features=8, gamma=0.9)
    obs = 5 + 2 * np.asarray(jax.random.normal(getkey(), (8, 4, 3)))
    bonus, after = pay(explorer, seen(obs))
    normal = np.clip((obs - obs.mean((0, 1))) / obs.std((0, 1)), -5, 5)
    features = [jax.vmap(jax.vmap(net))(normal) for net in (explorer.predictor, explorer.target)]
    error = np.mean((np.asarray(features[0]) - np.asarray(features[1])) ** 2, -1)
    sums, total = [], np.zeros(4)
    for now in error:
        total = 0.9 * total + now
        sums.append(total)
    np.testing.assert_allclose(bonus, error / np.std(sums), rtol=1e-3)
    np.testing.assert_allclose(after.discounted_return, total, rtol=1e-4)


def test_dead_slots_pay_nothing_and_teach_nothing(getkey):
    explorer = RND(BOX, key=getkey(), hidden=(16,), num_features=8)
    obs, valid = jax.random.normal(getkey(), (6, 4, 3)), jax.random.bernoulli(getkey(), 0.6, (6, 4))
    bonus, after = pay(explorer, seen(obs, valid))
    other, also_after = pay(explorer, seen(jnp.where(valid[..., None], obs, 77.0), valid))
    assert (bonus[~valid] == 0).all()
    np.testing.assert_array_equal(bonus, other)
    assert eqx.tree_equal(after, also_after)


def test_a_new_symbol_in_a_dictionary_pays(getkey):
    space = spaces.Dict({"place": spaces.Box(-1, 1, (2,)), "symbol": spaces.Discrete(3)})
    explorer = RND(stage(space), key=getkey(), hidden=(16,), num_features=8, lr=3e-3)
    obs = {"place": 0.1 * jax.random.normal(getkey(), (8, 4, 2)), "symbol": jnp.zeros((8, 4), jnp.int32)}
    for _ in range(40):
        _, explorer = pay(explorer, seen(obs))
    bonus, _ = pay(explorer, seen(obs | {"symbol": jnp.zeros((8, 4), jnp.int32).at[:, 3].set(2)}))
    assert float(bonus[:, 3].mean()) > 10 * float(bonus[:, :3].mean())


def test_images_pay_too(getkey):
    space = spaces.Dict({"image": spaces.Box(0, 255, (4, 4, 1), np.uint8), "symbol": spaces.Discrete(3)})
    obs = {"image": jnp.zeros((5, 4, 4, 4, 1), jnp.uint8), "symbol": jnp.zeros((5, 4), jnp.int32)}

    def run(key):
        return RND(stage(space), key=key, hidden=(8,), num_features=4).reward(seen(obs))

    bonus, after = jax.eval_shape(run, getkey())  # shapes only: a CNN takes long to compile
    assert bonus.shape == (5, 4)
    assert list(after.target.trunk.encoder.cnns) == ["image"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": 0.0}, r"RND\.lr = .* must be positive"),
        ({"gamma": 1.5}, r"RND\.gamma = .* must be in \[0, 1\]"),
        ({"num_features": 0}, r"RND\.num_features = 0 must be a positive integer"),
        ({"num_passes": 0}, r"RND\.num_passes = 0 must be a positive integer"),
        ({"hidden": ()}, r"RND: hidden = \(\) must be one positive integer per layer"),
    ],
)
def test_a_setting_of_rnd_out_of_range_is_named(settings, message, getkey):
    with pytest.raises(rl.ConfigError, match=message):
        RND(BOX, key=getkey(), **{"hidden": (4,)} | settings)


def test_a_rollout_of_other_environments_is_refused(getkey):
    explorer = RND(BOX, key=getkey(), hidden=(4,), num_features=2)
    with pytest.raises(rl.ShapeError, match=r"RND\.reward: the rollout has shape \(5, 3\); it must be \[T, B\] with the B = 4 of its env"):
        explorer.reward(seen(jnp.zeros((5, 3, 3))))


# All of them


def test_a_whole_run_with_bonuses_is_one_program_for_many_seeds(getkey):
    env = rl.VecEnv(rl.envs.GridWorld(), num_envs=2)
    cfg = ppo.Config(num_steps=8, num_minibatches=2, update_epochs=1)

    def run(key):
        model_key, init_key, own_key = jax.random.split(key, 3)
        state = ppo.init(rl.nn.ActorCritic(env, key=model_key, hidden=(8,)), env, cfg, key=init_key)
        explorers = CountBased(0.1), RND(env, key=own_key, hidden=(8,), num_features=4)

        def collect_and_update(state_and_explorers, _):
            state, explorers = state_and_explorers
            state, rollout = ppo.collect(state, env, cfg)
            bonuses, explorers = zip(*(explorer.reward(rollout) for explorer in explorers), strict=True)
            rollout = rollout._replace(reward=combine_rewards(rollout.reward, sum(bonuses), 0.1))
            return (ppo.update(state, rollout, cfg)[0], explorers), bonuses

        return jax.lax.scan(collect_and_update, (state, explorers), length=3)[1]

    with jax.debug_key_reuse(False):  # under vmap, any scan over keys is taken for their reuse
        bonuses = jax.jit(jax.vmap(run))(jax.random.split(getkey(), 2))
    for bonus in bonuses:
        assert bonus.shape == (2, 3, 8, 2)
        assert (bonus > 0).all()
        assert (bonus[:, -1].mean((1, 2)) < bonus[:, 0].mean((1, 2))).all(), "what was seen pays less"


def test_explorers_are_saved_and_loaded(tmp_path, getkey):
    explorers = CountBased(0.5), EntropyReduction(4), RND(BOX, key=getkey(), hidden=(4,), num_features=2)
    for number, explorer in enumerate(explorers):
        path = tmp_path / f"{number}.safetensors"
        rl.save(path, explorer)
        assert eqx.tree_equal(rl.load(path, like=explorer), explorer)


def test_rewards_are_combined_by_their_coefficient():
    extrinsic, intrinsic = jnp.array([[1.0, 0.0]]), jnp.array([[0.5, 2.0]])
    np.testing.assert_allclose(combine_rewards(extrinsic, intrinsic, 0.01), [[1.005, 0.02]])
    with pytest.raises(rl.ShapeError, match=r"combine_rewards: intrinsic has shape \(2,\); it must be that of extrinsic, \(1, 2\)"):
        inspect.unwrap(combine_rewards)(extrinsic, intrinsic[0], 0.01)


def test_what_is_not_finite_teaches_random_networks_nothing(getkey):
    explorer = RND(BOX, key=getkey(), hidden=(16,), num_features=8)
    good = jnp.ones((3, 4, 3))
    _, explorer = explorer.reward(seen(good))
    _, after = explorer.reward(seen(good.at[0, 0, 0].set(jnp.nan)))
    for old, new in zip(jax.tree.leaves(explorer), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(old, new)
