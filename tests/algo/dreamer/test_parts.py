"""The parts of Dreamer against the numbers of the published code."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax import dreamer, gradients
from rl4jax.algo.dreamer import actions, kl_balanced_loss
from rl4jax.algo.dreamer.kl_balance import dynamics_kl, representation_kl
from rl4jax.algo.dreamer.laprop import clip_by_weight, scale_by_laprop
from rl4jax.algo.dreamer.representation import barlow_twins_loss, info_nce_loss, standardized
from rl4jax.algo.dreamer.sizes import SIZES, size_named
from rl4jax.collect.percentile_normalizer import PercentileNormalizer
from rl4jax.collect.returns import lambda_returns
from rl4jax.nn.distributions.one_hots import OneHots

X = jnp.array([[1.0, 0.0], [2.0, 1.0], [3.0, 5.0], [4.0, 2.0]])
Y = jnp.array([[2.0, 1.0], [1.0, 0.0], [4.0, 3.0], [3.0, 4.0]])


@pytest.mark.parametrize(("weight", "clipped"), [([1.0, 0.0], [0.18, 0.24]), ([0.0, 0.0], [1.8e-4, 2.4e-4]), ([100.0, 0.0], [3.0, 4.0])])
def test_gradients_are_clipped_by_the_norm_of_their_weights(weight, clipped):
    clip = clip_by_weight()
    found, _ = clip.update(jnp.array([3.0, 4.0]), clip.init(jnp.zeros(2)), jnp.array(weight))
    np.testing.assert_allclose(found, clipped, rtol=1e-6)


def test_laprop_forgets_as_fast_as_it_is_told():
    directions = {}
    for b2 in (0.999, 0.9, jnp.float32(0.9), 0.0):
        laprop = scale_by_laprop(b1=0.0, b2=b2)
        state = laprop.init(jnp.zeros(()))
        for grad in (100.0, 1.0, 1.0):
            direction, state = laprop.update(jnp.float32(grad), state)
        directions[str(b2)] = float(direction)
    squares = 0.1 * (0.81 * 1e4 + 0.9 + 1) / (1 - 0.9**3)
    assert directions["0.9"] == pytest.approx(squares**-0.5, rel=1e-5)
    assert directions["0.0"] == pytest.approx(1.0)
    assert directions["0.999"] < directions["0.9"]


def test_laprop():
    laprop = scale_by_laprop()
    state, found = laprop.init(jnp.zeros(())), []
    for grad in (1.0, 3.0, -2.0):
        direction, state = laprop.update(jnp.float32(grad), state)
        found.append(float(direction))
    assert found == pytest.approx([1.0, 1.1796697, 0.4027728], rel=1e-6)


def test_the_settings_of_a_gradient_step_have_no_schedules():
    cfg = dreamer.Config(lr=rl.Linear(1.0, 0.0, 10), entropy_coef=rl.Linear(0.5, 0.1, 4)).after(2)
    np.testing.assert_allclose((cfg.lr, cfg.entropy_coef), (0.8, 0.3), rtol=1e-6)


def test_divergences_without_a_uniform_share_are_finite_in_a_compiled_program():
    sure, unsure = jnp.array([[200.0, 0.0, 0.0, 0.0]]), jnp.zeros((1, 4))
    loss, kl = jax.jit(lambda x, y: kl_balanced_loss(OneHots(x, 0.0), OneHots(y, 0.0)))(sure, unsure)
    assert float(kl) == pytest.approx(np.log(4), rel=1e-6)
    assert float(loss) == pytest.approx(1.1 * np.log(4), rel=1e-6)


def test_barlow_twins_and_info_nce():
    assert float(barlow_twins_loss(X, Y)) == pytest.approx(0.6123624, rel=1e-6)
    assert float(barlow_twins_loss(X, X, 0.0)) == pytest.approx(2 * (0.75 - 1) ** 2, rel=1e-5)
    assert float(info_nce_loss(X, Y)) == pytest.approx(4.0023033, rel=1e-6)
    assert float(info_nce_loss(jnp.zeros((1024, 2)), jnp.zeros((1024, 2)))) == pytest.approx(np.log(1024), rel=1e-6)


def test_barlow_twins_weighs_the_diagonal_and_the_rest():
    correlation = standardized(X).T @ standardized(Y) / 4
    np.testing.assert_allclose(correlation, [[0.45, 0.6363961], [0.6274950, 0.4437060]], rtol=1e-6)
    assert float(barlow_twins_loss(X, Y, 0.0)) == pytest.approx(0.6119630, rel=1e-6)
    assert float(barlow_twins_loss(X, Y, 1.0)) == pytest.approx(0.6119630 + 0.7987500, rel=1e-6)


def test_a_feature_that_does_not_vary_spoils_no_gradient():
    grad = jax.grad(lambda x: barlow_twins_loss(x, Y))(X.at[:, 0].set(1.0))
    assert bool(jnp.isfinite(grad).all())


@pytest.mark.parametrize(
    ("lam", "term", "last", "returns"),
    [
        (0.5, [], [], [7.24825, 8.885, 9.3]),
        (1.0, [], [], [10.333, 10.37, 9.3]),
        (0.0, [], [], [5.5, 7.4, 9.3]),
        (0.5, [2], [2], [4.15, 2.0, 9.3]),
        (0.5, [], [2], [6.58, 7.4, 9.3]),
    ],
)
def test_lambda_returns_with_ends(lam, term, last, returns):
    reward, value = jnp.array([9.0, 1.0, 2.0, 3.0]), jnp.array([4.0, 5.0, 6.0, 7.0])
    flags = lambda places: jnp.array([i in places for i in range(4)], jnp.float32)  # noqa: E731
    found = lambda_returns(reward[1:], value[1:], 0.9 * (1 - flags(term))[1:], lam * (1 - flags(last))[1:])
    np.testing.assert_allclose(found, returns, rtol=1e-6)


def test_lambda_returns_with_ends_that_are_only_likely():
    one, goes_on = jnp.ones(3), jnp.array([0.9, 0.8, 0.5])
    np.testing.assert_allclose(lambda_returns(one, one, goes_on, 0.95 * one), [2.9089, 2.18, 1.5], rtol=1e-6)


def test_a_reward_of_one_for_ever_is_worth_the_horizon():
    one = jnp.ones(15)
    np.testing.assert_allclose(lambda_returns(one, 333 * one, (1 - 1 / 333) * one, 0.95 * one), 333.0, rtol=1e-6)


def test_percentiles_grow_from_zero():
    normalizer, scales, percentiles = PercentileNormalizer.create(start=0.0), [], []
    for i in range(100):
        normalizer = normalizer.update(jnp.arange(101.0))
        if i < 3:
            scales.append(float(normalizer.scale))
            percentiles += [float(normalizer.low_return), float(normalizer.high_return)]
    assert scales == pytest.approx([1.0, 1.791, 2.67309], rel=1e-5)
    assert percentiles[:4] == pytest.approx([0.05, 0.95, 0.0995, 1.8905], rel=1e-5)
    assert [float(normalizer.low_return), float(normalizer.high_return)] == pytest.approx([3.16984, 60.22693], rel=1e-5)


def kl_loss(logits, free_nats):
    return kl_balanced_loss(OneHots(logits["posterior"]), OneHots(logits["prior"]), free_nats=free_nats)[0]


def test_each_side_of_the_divergence_is_pulled_by_its_own_weight():
    posterior, prior = jnp.array([[0.0, 1.0, 2.0, 3.0]] * 2), jnp.zeros((2, 4))
    apart = {"posterior": posterior, "prior": prior}
    by_both = jax.grad(kl_loss)(apart, 0.0)
    kl = jax.grad(lambda x: OneHots(x["posterior"]).kl(OneHots(x["prior"])))(apart)
    np.testing.assert_allclose(by_both["prior"], 1.0 * kl["prior"], rtol=1e-5)
    np.testing.assert_allclose(by_both["posterior"], 0.1 * kl["posterior"], rtol=1e-5)


def test_nothing_is_pulled_below_the_free_nats():
    near = {"posterior": jnp.array([[1.0, 0.0, 0.0, 0.0]]), "prior": jnp.zeros((1, 4))}
    assert float(kl_loss(near, 1.0)) == pytest.approx(1.1)
    assert not any(bool(jnp.any(grad)) for grad in jax.tree.leaves(jax.grad(kl_loss)(near, 1.0)))
    gradients.assert_flow(kl_loss, near, 0.0, reaches=("posterior", "prior"))


@pytest.mark.parametrize(("part", "side", "other"), [(dynamics_kl, "prior", "posterior"), (representation_kl, "posterior", "prior")])
def test_each_side_of_the_divergence_is_taught_by_its_own_part(part, side, other):
    apart = {"posterior": jnp.array([[0.0, 1.0, 2.0, 3.0]]), "prior": jnp.zeros((1, 4))}
    loss = lambda logits: part(OneHots(logits["posterior"]), OneHots(logits["prior"]))  # noqa: E731
    gradients.assert_flow(loss, apart, reaches=(side,), not_reaches=(other,))


def test_the_spread_of_continuous_actions_is_bounded():
    box = spaces.Box(np.float32([-2, 0]), np.float32([2, 1]))
    pi = actions.distribution(box, jnp.zeros(4))
    np.testing.assert_allclose(pi.mean, [0.0, 0.5])
    np.testing.assert_allclose(jnp.exp(pi.log_std), [2 * 0.8927174, 0.5 * 0.8927174], rtol=1e-6)
    np.testing.assert_allclose(actions.as_vector(box, jnp.array([2.0, 0.25])), [1.0, -0.5])
    wide = [actions.distribution(box, jnp.array([0.0, 0.0, x, x])) for x in (-100.0, 100.0)]
    np.testing.assert_allclose([float(jnp.exp(pi.log_std[0])) / 2 for pi in wide], [0.1, 1.0], rtol=1e-5)
    np.testing.assert_allclose([pi.entropy() / 2 for pi in wide], [-0.8836466, 1.4189385], rtol=1e-5)  # half widths are 2 and 1 / 2
    huge = actions.distribution(spaces.Box(-1000, 1000, (1,)), jnp.zeros(2))
    np.testing.assert_allclose(huge.sample_from(jnp.ones(1)), 892.7174, rtol=1e-6)


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.MultiDiscrete([3, 2])])
def test_no_choice_is_ever_impossible(space):
    pi = actions.distribution(space, jnp.array([1e4, 0.0, 0.0, 0.0, 0.0])[: int(spaces.flatdim(space))])
    unlikely = jnp.int32(1) if isinstance(space, spaces.Discrete) else jnp.array([1, 0], jnp.int32)
    share = 0.01 / 3 * (1.0 if isinstance(space, spaces.Discrete) else 0.5)
    assert float(jnp.exp(pi.log_prob(unlikely))) == pytest.approx(share, rel=1e-4)


@pytest.mark.parametrize("space", [spaces.Dict(a=spaces.Discrete(2)), spaces.Box(-np.inf, np.inf, (1,)), spaces.MultiBinary(3)])
def test_actions_it_cannot_take(space):
    with pytest.raises(rl.EnvError, match="dreamer: actions are"):
        actions.check_actions(space)


def test_sizes():
    assert SIZES["200m"][:5] == (8192, 1024, 1024, 64, 64)
    with pytest.raises(rl.ConfigError, match="Did you mean '12m'"):
        size_named("12M")
