"""Parts chosen one after the other: each head sees what was chosen before it."""

import itertools
import math
import re

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax.nn import Categorical, Composite, MultiCategorical, Normal
from tests.nn.distributions.oracles import (
    all_finite,
    assert_frequencies,
    entropy,
    gradients,
    kl,
    log_probs,
    log_softmax,
    measures,
    samples,
)

SIZES = {"kind": 3, "target": 4, "ability": 2}  # in the order of choosing, which is not that of the alphabet
ORDER = tuple(SIZES)
TARGETS = np.array([[1, 1, 0, 1], [0, 1, 1, 1], [1, 0, 0, 0]], bool)  # what each kind may aim at
JOINT = list(itertools.product(*(range(n) for n in SIZES.values())))
MASK = {"kind": [1, 1, 1], "target": [1, 0, 1, 1], "ability": [1, 1]}  # of the environment, besides


class TargetHead(eqx.Module):
    logits: jax.Array  # [kind, target]

    def __call__(self, earlier):
        assert set(earlier) == {"kind"}, "only what was chosen before"
        return Categorical(self.logits[earlier["kind"]]).masked(jnp.asarray(TARGETS)[earlier["kind"]])


class AbilityHead(eqx.Module):
    logits: jax.Array  # [kind, target, ability]

    def __call__(self, earlier):
        assert set(earlier) == {"kind", "target"}
        return Categorical(self.logits[earlier["kind"], earlier["target"]])


def tables(x):
    """39 numbers as the logits of all heads in all cases."""
    return x[:3], x[3:15].reshape(3, 4), x[15:39].reshape(3, 4, 2)


def build(x):
    kind, target, ability = tables(x)
    return Composite({"kind": Categorical(kind), "target": TargetHead(target), "ability": AbilityHead(ability)}, order=ORDER)


def flat_mask():
    return np.concatenate([np.array(MASK[name], bool) for name in sorted(MASK)])  # as Gymnasium has it


def joint_log_probs(x, masked=False, temperature=1.0):
    """Of every action, in the order of JOINT, by a loop."""
    kind, target, ability = (np.asarray(t, np.float64) / temperature for t in tables(x))
    allowed = np.array(MASK["target"], bool) if masked else np.ones(4, bool)
    return np.array(
        [
            log_softmax(kind)[k] + log_softmax(target[k], TARGETS[k] & allowed)[t] + log_softmax(ability[k, t])[a]
            for k, t, a in JOINT
        ]
    )  # fmt: skip


def every_action():
    columns = np.array(JOINT, np.int32).T
    return {name: jnp.asarray(column) for name, column in zip(SIZES, columns, strict=True)}


def index_of(drawn):
    return np.asarray(drawn["kind"]) * 8 + np.asarray(drawn["target"]) * 2 + np.asarray(drawn["ability"])


@pytest.mark.parametrize("masked", [False, True])
def test_probabilities_of_all_joint_actions_match_a_loop_and_sum_to_one(masked, getkey):
    x = jax.random.normal(getkey(), (39,))
    pi = build(x).masked(flat_mask() if masked else None)
    got, wanted = np.asarray(log_probs(pi, every_action())), joint_log_probs(x, masked)
    np.testing.assert_allclose(np.exp(got), np.exp(wanted), atol=1e-6)
    np.testing.assert_allclose(np.exp(got).sum(), 1, atol=1e-5)
    assert (np.exp(got) > 0).sum() == 2 * (5 if masked else 7)


@pytest.mark.parametrize("masked", [False, True])
def test_frequencies_match_the_probabilities(masked, getkey):
    x = 0.7 * jax.random.normal(getkey(), (39,))
    pi = build(x).masked(flat_mask() if masked else None)
    drawn = samples(pi, jax.random.split(getkey(), 2**16))
    assert list(drawn) == sorted(SIZES), "an action is kept by name"
    assert_frequencies(np.bincount(index_of(drawn), minlength=24), np.exp(joint_log_probs(x, masked)))


def test_forbidden_choices_never_appear_in_a_million_samples(getkey):
    x = jnp.zeros(39).at[3:15].set(jnp.where(TARGETS & np.array(MASK["target"], bool), -5.0, 5.0).ravel())  # what is forbidden looks best
    pi, counts = build(x).masked(flat_mask()), np.zeros(24)
    for _ in range(4):
        counts += np.bincount(index_of(samples(pi, jax.random.split(getkey(), 250_000))), minlength=24)
    assert counts.sum() == 10**6
    possible = joint_log_probs(x, masked=True) > -np.inf
    assert counts[~possible].sum() == 0
    assert (counts[possible] > 0).all()


@pytest.mark.parametrize("masked", [False, True])
def test_entropy_and_kl_along_actions_average_to_those_of_the_joint_distribution(masked, getkey):
    x, y = jax.random.normal(getkey(), (2, 39))
    pi, other = (build(z).masked(flat_mask() if masked else None) for z in (x, y))
    log_p, log_q = joint_log_probs(x, masked), joint_log_probs(y, masked)
    out = jax.jit(jax.vmap(lambda action: measures(pi, other, action)))(every_action())
    weight = np.exp(log_p)
    np.testing.assert_allclose((weight * out["entropy"]).sum(), entropy(log_p), rtol=1e-5)
    np.testing.assert_allclose((weight * out["kl"]).sum(), kl(log_p, log_q), rtol=1e-5)


def test_entropy_given_an_action_is_the_sum_of_the_conditional_ones(getkey):
    x = jax.random.normal(getkey(), (39,))
    kind, target, ability = (np.asarray(t, np.float64) for t in tables(x))
    for k, t, a in ((0, 1, 0), (2, 0, 1)):
        wanted = entropy(log_softmax(kind)) + entropy(log_softmax(target[k], TARGETS[k])) + entropy(log_softmax(ability[k, t]))
        action = {"kind": jnp.int32(k), "target": jnp.int32(t), "ability": jnp.int32(a)}
        np.testing.assert_allclose(build(x).entropy(action), wanted, rtol=1e-5)


@pytest.mark.parametrize("size", [1.0, 1e4, 1e30])
def test_gradients_are_finite_under_masks(size, getkey):
    x, y = size * jax.random.normal(getkey(), (2, 39))
    each = jax.jit(jax.vmap(lambda action: gradients(build, x, y, flat_mask(), action)))
    assert all_finite(each(every_action())), "also of actions that are forbidden"


def test_a_head_has_a_gradient_only_where_it_was_asked(getkey):
    x = jax.random.normal(getkey(), (39,))
    action = {"kind": jnp.int32(1), "target": jnp.int32(2), "ability": jnp.int32(0)}
    kind, target, ability = tables(jax.grad(lambda x: build(x).log_prob(action))(x))
    assert (kind != 0).all()
    assert (np.flatnonzero(np.abs(target).sum(1)) == [1]).all()
    assert target[1, 0] == 0, "forbidden for this kind"
    assert (np.abs(ability).sum(-1) > 0).nonzero()[0].tolist() == [1]
    assert (np.abs(ability).sum(-1) > 0).nonzero()[1].tolist() == [2]


def test_the_mode_is_that_of_each_head_after_the_modes_before_it(getkey):
    for key in jax.random.split(getkey(), 8):
        x = jax.random.normal(key, (39,))
        kind, target, ability = (np.asarray(t) for t in tables(x))
        k = kind.argmax()
        t = np.where(TARGETS[k], target[k], -np.inf).argmax()
        assert jax.tree.map(int, build(x).mode()) == {"kind": k, "target": t, "ability": ability[k, t].argmax()}


@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_each_head_is_tempered(temperature, getkey):
    x = jax.random.normal(getkey(), (39,))
    got = np.exp(log_probs(build(x).masked(flat_mask()).tempered(temperature), every_action()))
    np.testing.assert_allclose(got, np.exp(joint_log_probs(x, True, temperature)), atol=1e-6)


def test_noise_is_known_before_the_parameters(getkey):
    shapes, key = jax.eval_shape(build, jnp.zeros(39)), getkey()
    pi = build(jax.random.normal(getkey(), (39,)))
    early, late = pi.sample_from(shapes.noise(jax.random.clone(key))), pi.sample(key)
    assert jax.tree.map(int, early) == jax.tree.map(int, late)
    assert (shapes.mask_size, shapes.maskable, shapes.total_logits) == (9, True, 9)


def test_the_order_of_choosing_survives_every_transform(getkey):
    x = jax.random.normal(getkey(), (5, 39))
    keys = jax.random.split(getkey(), 5)
    mapped = jax.jit(jax.vmap(lambda x, key: build(x).masked(flat_mask()).sample(key)))(x, keys)
    rebuilt = jax.tree.map(lambda leaf: leaf, build(x[3]))
    assert rebuilt.order == ORDER
    assert jax.tree.map(int, rebuilt.masked(flat_mask()).sample(jax.random.clone(keys)[3])) == jax.tree.map(lambda a: int(a[3]), mapped)


def test_continuous_and_nested_parts_may_depend_on_earlier_ones(getkey):
    class Aim(eqx.Module):
        means: jax.Array

        def __call__(self, earlier):
            return Normal(self.means[earlier[0]], jnp.zeros(2))

    class Tool(eqx.Module):
        def __call__(self, earlier):
            hot = (earlier[1] > 0).astype(jnp.float32)
            return Composite((MultiCategorical(jnp.concatenate([hot, -hot]), (2, 2)), Categorical(hot)))

    space = spaces.Tuple(
        (spaces.Discrete(2), spaces.Box(-9, 9, (2,)), spaces.Tuple((spaces.MultiDiscrete([2, 2]), spaces.Discrete(2)))),
    )
    pi = Composite((Categorical(jnp.zeros(2)), Aim(jnp.array([[-3.0, -3.0], [3.0, 3.0]])), Tool()))
    assert pi.mask_size == gymnasium.spaces.flatdim(space)
    mask = np.ones(pi.mask_size, bool)
    mask[0] = False
    action = pi.masked(mask).sample(getkey())
    assert int(action[0]) == 1
    assert np.abs(np.asarray(action[1]) - 3).max() < 5
    hot = np.asarray(action[1] > 0, np.float64)
    wanted = math.log(0.5) + float(Normal(jnp.full(2, 3.0), jnp.zeros(2)).log_prob(action[1]))
    wanted += log_softmax(hot)[action[2][0][0]] + log_softmax(-hot)[action[2][0][1]] + log_softmax(hot)[action[2][1]]
    assert float(pi.log_prob(action)) == pytest.approx(wanted, rel=1e-4)
    slope = jax.grad(lambda m: Composite((Categorical(jnp.zeros(2)), Aim(m))).sample_from((jnp.zeros(2), jnp.zeros(2)))[1].sum())
    np.testing.assert_array_equal(slope(jnp.zeros((2, 2))), [[1, 1], [0, 0]])


def test_from_heads_reads_one_row_of_logits_head_after_head(getkey):
    names, sizes = ("action_type", "target", "ability"), (11, 30, 8)
    logits = jax.random.normal(getkey(), (49,))
    pi = Composite.from_heads(names, sizes, logits)
    assert (pi.total_logits, pi.conditional) == (49, False)
    action = {"action_type": jnp.int32(10), "target": jnp.int32(0), "ability": jnp.int32(7)}
    wanted = log_softmax(logits[:11])[10] + log_softmax(logits[11:41])[0] + log_softmax(logits[41:])[7]
    assert float(pi.log_prob(action)) == pytest.approx(wanted, rel=1e-5)
    assert float(Composite.from_heads(names, sizes).entropy()) == pytest.approx(math.log(11 * 30 * 8), rel=1e-5)
    assert Composite({"a": Categorical(jnp.zeros(3)), "b": Normal(jnp.zeros(2), jnp.zeros(2)), "c": pi}).total_logits == 52


def test_an_independent_and_a_conditional_policy_can_be_compared(getkey):
    x = jax.random.normal(getkey(), (39,))
    free = Composite.from_heads(("kind", "target", "ability"), (3, 4, 2))
    action = free.mode()
    terms = (
        (math.log(3), log_softmax(x[:3])), (math.log(4), log_softmax(x[3:7], TARGETS[0])), (math.log(2), log_softmax(x[15:17])),
    )  # fmt: skip
    there = build(x).kl(free, action)
    assert float(there) == pytest.approx(sum(most - entropy(log_p) for most, log_p in terms), rel=1e-4)


class After(eqx.Module):
    """Asks for what was chosen of another part, whatever there is."""

    name: str

    def __call__(self, earlier):
        return Categorical(jnp.zeros(2) + earlier[self.name])


class Nothing(eqx.Module):
    def __call__(self, earlier):
        return jnp.zeros(3)


ERRORS = {
    "a plain function": (
        lambda: Composite({"a": Categorical(jnp.zeros(2)), "b": lambda earlier: Categorical(jnp.zeros(2))}, order=("a", "b")),
        TypeError, "Composite.parts['b'] is a function; it must be a distribution, or an eqx.Module that is called with the earlier parts",
    ),
    "no order": (
        lambda: Composite({"kind": Categorical(jnp.zeros(3)), "target": TargetHead(jnp.zeros((3, 4)))}),
        rl.ConfigError, "Composite.order = None must name the parts in the order in which they are chosen",
    ),
    "an incomplete order": (
        lambda: Composite({"kind": Categorical(jnp.zeros(3)), "target": TargetHead(jnp.zeros((3, 4)))}, order=("kind",)),
        rl.ConfigError, "Composite.order = ('kind',) must have each of the parts once: ['kind', 'target'].",
    ),
    "an order in which a head is too early": (
        lambda: Composite({"a": Categorical(jnp.zeros(2)), "b": After("a")}, order=("b", "a")).sample(jax.random.key(0)),
        rl.ConfigError, "Composite.order = ('b', 'a') must have 'a' before 'b', whose After asks for it: it is given [].",
    ),
    "a head that asks for nothing we know": (
        lambda: Composite({"a": Categorical(jnp.zeros(2)), "b": After("c")}, order=("a", "b")).mode(), KeyError, "'c'",
    ),
    "not a distribution": (
        lambda: Composite((Nothing(),)).mode(), TypeError, "Composite.parts[0]: Nothing gave a ArrayImpl; a head must return a distribution.",
    ),
    "no action": (
        lambda: build(jnp.zeros(39)).entropy(), rl.ShapeError,
        "Composite.entropy: action is None, but some parts depend on earlier ones. Give the action that was taken.",
    ),
    "no action for the other one": (
        lambda: Composite(dict.fromkeys("ab", Categorical(jnp.zeros(2)))).kl(
            Composite({"a": Categorical(jnp.zeros(2)), "b": After("a")}, order=("a", "b"))
        ),
        rl.ShapeError, "Composite.kl: action is None, but some parts depend on earlier ones.",
    ),
    "too few sizes": (
        lambda: Composite.from_heads(("a", "b"), (2,)), rl.ConfigError,
        "Composite.from_heads: sizes = (2,) must be one positive integer for each of ('a', 'b'), all different.",
    ),
    "too few logits": (
        lambda: Composite.from_heads(("a", "b"), (2, 3), jnp.zeros(4)), rl.ShapeError,
        "Composite.from_heads: logits has shape (4,); the sizes (2, 3) need (5,), head after head.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("mistake", "error", "said"), ERRORS.values(), ids=ERRORS)
def test_a_mistake_is_answered_with_the_rule(mistake, error, said):
    with pytest.raises(error, match=re.escape(said)):
        mistake()


def test_two_orders_of_choosing_cannot_be_compared(getkey):
    class Same(eqx.Module):
        def __call__(self, earlier):
            return Categorical(jnp.zeros(2))

    one, other = (Composite({"a": Same(), "b": Same()}, order=order) for order in (("a", "b"), ("b", "a")))
    with pytest.raises(rl.ConfigError, match=re.escape("other chooses in the order ('b', 'a'), self in ('a', 'b')")):
        one.kl(other, one.mode())
