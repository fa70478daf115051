import itertools
import math

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from rl4jax.nn.distributions import Categorical, Composite, MultiCategorical, Normal, TanhNormal
from tests.nn.distributions.oracles import assert_frequencies, log_probs, measures, samples


def categorical():
    return Categorical(jnp.array([0.3, -0.5, 1.0]))


def multi():
    return MultiCategorical(jnp.array([0.2, -0.4, 0.0, 1.0, -1.0]), (2, 3))


def discrete(kind):
    return Composite({"b": categorical(), "a": multi()}) if kind is dict else Composite((categorical(), multi()))


def every_discrete_action(kind):
    choices, pairs = range(3), itertools.product(range(2), range(3))
    both = [(np.int32(c), np.array(p, np.int32)) for c, p in itertools.product(choices, list(pairs))]
    actions = [{"a": pair, "b": choice} for choice, pair in both] if kind is dict else both
    return jax.tree.map(lambda *x: jnp.stack(x), *actions)


@pytest.mark.parametrize("kind", [dict, tuple])
@pytest.mark.parametrize("with_mask", [False, True])
def test_probabilities_of_all_actions_sum_to_one_and_match_the_frequencies(kind, with_mask, getkey):
    by_name, by_number = [True, True, True, True, False, True, True, False], [True, True, False, True, True, True, True, False]
    pi = discrete(kind).masked(np.array(by_name if kind is dict else by_number) if with_mask else None)
    actions = every_discrete_action(kind)
    probs = np.exp(log_probs(pi, actions))
    np.testing.assert_allclose(probs.sum(), 1, atol=1e-5)
    assert (probs > 0).sum() == (8 if with_mask else 18)
    np.testing.assert_allclose(pi.entropy(), -sum(p * math.log(p) for p in probs if p > 0), rtol=1e-5)
    drawn = samples(pi, jax.random.split(getkey(), 8192))
    assert jax.tree.structure(drawn) == jax.tree.structure(actions)
    choice, pair = (drawn["b"], drawn["a"]) if kind is dict else drawn
    index = np.asarray(choice) * 6 + np.asarray(pair[:, 0]) * 3 + np.asarray(pair[:, 1])
    assert_frequencies(np.bincount(index, minlength=18), probs)


def test_measures_are_sums_over_the_parts(getkey):
    parts = {
        "choice": (categorical(), Categorical(jnp.zeros(3)), jnp.int32(2)),
        "move": (Normal(jnp.zeros(2), jnp.zeros(2)), Normal(jnp.ones(2), jnp.ones(2)), jnp.array([0.1, 0.2])),
        "turn": (TanhNormal(jnp.zeros(1), jnp.zeros(1), -1.0, 1.0), TanhNormal(jnp.ones(1), jnp.zeros(1), -1.0, 1.0), jnp.array([0.5])),
    }
    pi, other = (Composite({name: part[i] for name, part in parts.items()}) for i in (0, 1))
    got = measures(pi, other, {name: part[2] for name, part in parts.items()})
    for name in got:
        np.testing.assert_allclose(got[name], sum(measures(*part)[name] for part in parts.values()), rtol=1e-5)
    assert set(pi.mode()) == set(parts)


def test_the_order_of_insertion_does_not_matter(getkey):
    there, back = Composite({"b": categorical(), "a": multi()}), Composite({"a": multi(), "b": categorical()})
    assert jax.tree.structure(there) == jax.tree.structure(back)
    key, mask = getkey(), np.array([1, 1, 1, 1, 0, 1, 1, 0], bool)
    for one, other in ((there, back), (there.masked(mask), back.masked(mask))):
        drawn, again = one.sample(key), other.sample(jax.random.clone(key))
        assert jax.tree.map(lambda x: x.tolist(), drawn) == jax.tree.map(lambda x: x.tolist(), again)
        swapped = dict(reversed(drawn.items()))
        assert one.log_prob(drawn) == other.log_prob(swapped)
        assert one.kl(other) == 0
        key = getkey()
    assert list(there.parts) == list(jax.tree.map(lambda x: x, there).parts) == ["a", "b"]


SPACE = spaces.Dict(
    {
        "z": spaces.Discrete(3),
        "m": spaces.Tuple((spaces.MultiDiscrete([2, 3]), spaces.Box(-1, 1, (1, 2)))),
        "c": spaces.Box(-1, 1, (2,)),
        "a": spaces.MultiDiscrete([[2, 2], [3, 2]]),
    }
)


def of_space(space):
    """A distribution over the actions of a space, as a model would build it."""
    if isinstance(space, spaces.Dict):
        return Composite({name: of_space(part) for name, part in sorted(space.items(), reverse=True)})
    if isinstance(space, spaces.Tuple):
        return Composite(tuple(of_space(part) for part in space))
    if isinstance(space, spaces.Box):
        return Normal(jnp.zeros(space.shape), jnp.zeros(space.shape))
    if isinstance(space, spaces.Discrete):
        return Categorical(jnp.zeros(int(space.n)))
    return MultiCategorical(jnp.zeros(int(space.nvec.sum())), tuple(space.nvec.ravel().tolist()), space.shape)


def test_a_mask_is_flat_in_the_order_of_gymnasium(getkey):
    pi = of_space(SPACE)
    assert pi.mask_size == gymnasium.spaces.flatdim(SPACE)
    actions = jax.device_get(samples(pi, jax.random.split(getkey(), 256)))
    flat = np.array([gymnasium.spaces.flatten(SPACE, jax.tree.map(lambda x, i=i: x[i], actions)) for i in range(256)])
    forbid_each = jax.jit(jax.vmap(lambda mask: log_probs(pi.masked(mask), actions)))
    impossible = np.asarray(forbid_each(~np.eye(pi.mask_size, dtype=bool))) < -1e8
    continuous = ~np.isin(flat, (0, 1)).all(0)
    assert continuous.sum() == 4
    assert (np.where(continuous, False, flat == 1) == impossible.T).all()


def test_masked_parts_never_sample_what_is_forbidden(getkey):
    pi = of_space(SPACE)
    mask = np.ones(pi.mask_size, bool)
    mask[[0, 3, 6, 8, 11 + 1, 15, -1]] = False  # one of every head of a and m, the last of z, and one of c, which ignores it
    drawn = samples(pi.masked(mask), jax.random.split(getkey(), 256))
    log_prob = np.asarray(log_probs(pi.masked(mask), drawn))
    assert (log_prob > -100).all()
    assert set(np.unique(drawn["z"])) == {0, 1}


def test_a_composite_of_continuous_parts_ignores_its_mask():
    pi = Composite((Normal(jnp.zeros(2), jnp.zeros(2)), TanhNormal(jnp.zeros(1), jnp.zeros(1), -1.0, 1.0)))
    assert not pi.maskable
    assert pi.masked(np.zeros(3, bool)).entropy() == pi.entropy()


def test_parts_are_independent(getkey):
    pi = Composite((Normal(jnp.zeros(()), jnp.zeros(())), Normal(jnp.zeros(()), jnp.zeros(()))))
    first, second = samples(pi, jax.random.split(getkey(), 8192))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05
