"""V-trace against rlax, a plain loop and what it must be on-policy."""

import functools
import inspect
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rl4jax as rl
from rl4jax.collect import VTrace, lambda_returns, n_step, vtrace

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden" / "rlax.json").read_text())  # see scripts/golden_returns.py
NAMES = ("log_rho", "reward", "value", "next_value", "discount", "trace")


def loop_vtrace(log_rho, reward, value, next_value, discount, trace, clip_rho=1.0, clip_c=1.0, clip_pg_rho=1.0):
    """As the paper has it, one environment at a time; an ended step, and the last one, know nothing but their own next value."""
    target, advantage = np.zeros_like(reward), np.zeros_like(reward)
    for index in np.ndindex(reward.shape[1:]):
        correction, next_target = 0.0, None
        for t in reversed(range(len(reward))):
            at = (t, *index)
            rho = np.exp(np.clip(log_rho[at], -20, 20))
            delta = min(rho, clip_rho) * (reward[at] + discount[at] * next_value[at] - value[at])
            correction = delta + discount[at] * trace[at] * min(rho, clip_c) * correction
            bootstrap = next_value[at] if next_target is None else trace[at] * next_target + (1 - trace[at]) * next_value[at]
            advantage[at] = min(rho, clip_pg_rho) * (reward[at] + discount[at] * bootstrap - value[at])
            target[at] = next_target = value[at] + correction
    return target, advantage


def random_inputs(shape, seed):
    """The ends of episodes among them: discount 0 and trace 0 where terminated, trace 0 where truncated."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["on", "terminated", "truncated"], shape, p=[0.7, 0.15, 0.15])
    discount, trace = np.where(kind == "terminated", 0.0, 0.95), np.where(kind == "on", 0.9, 0.0)
    return [rng.normal(size=shape) for _ in range(4)] + [discount, trace]


def single(inputs):
    return [jnp.asarray(x, jnp.float32) for x in inputs]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{len(case['reward'])}-steps")
def test_vtrace_equals_rlax(case):
    got = vtrace(*single(case[name] for name in NAMES), clip_rho=case["clip_rho"], clip_pg_rho=case["clip_pg_rho"])
    np.testing.assert_allclose(got.target, case["vtrace_target"], atol=1e-5)
    np.testing.assert_allclose(got.advantage, case["vtrace_advantage"], atol=1e-5)


def test_vtrace_of_the_alphastar_example():
    log_rho = np.log([1.5, 0.5, 2.0, 0.8, 1.0])
    reward, value, next_value = [0, 1, 0, 0, 1], [0.5, 0.6, 0.2, 0.8, 0.3], [0.6, 0.2, 0.8, 0.3, 0.7]
    got = vtrace(*single([log_rho, reward, value, next_value, [0.9, 0.9, 0.9, 0.9, 0.0], [1, 1, 1, 1, 0]]))
    np.testing.assert_allclose(got.target, [1.04076, 1.1564, 0.792, 0.88, 1.0], rtol=1e-5)
    np.testing.assert_allclose(got.advantage, [0.54076, 0.5564, 0.592, 0.08, 0.7], rtol=1e-5)


CLIPS = {"clip_rho": 1.2, "clip_c": 0.8, "clip_pg_rho": 1.5}
clipped = functools.partial(vtrace, **CLIPS)
WRAPS = {"plain": clipped, "jit": jax.jit(clipped), "vmap": jax.jit(jax.vmap(clipped, in_axes=1, out_axes=1))}


@settings(deadline=None, max_examples=25)
@given(
    wrap=st.sampled_from(["jit", "vmap"]),
    batch=st.sampled_from([(2,), (3, 2)]),
    num_steps=st.sampled_from([1, 33]),
    seed=st.integers(0, 99),
)
def test_vtrace_matches_a_plain_loop_over_the_ends_of_episodes(wrap, batch, num_steps, seed):
    check_against_the_loop(wrap, (num_steps, *batch), seed)


@pytest.mark.parametrize(("wrap", "shape"), [("plain", (7, 2)), ("jit", (7,))])
def test_vtrace_needs_neither_a_compiler_nor_a_batch(wrap, shape):
    check_against_the_loop(wrap, shape, 1)


def check_against_the_loop(wrap, shape, seed):
    inputs = random_inputs(shape, seed)
    got, wanted = WRAPS[wrap](*single(inputs)), loop_vtrace(*inputs, **CLIPS)
    np.testing.assert_allclose(got.target, wanted[0], atol=1e-4)
    np.testing.assert_allclose(got.advantage, wanted[1], atol=1e-4)


@pytest.mark.parametrize("clip", [1.0, 7.0, np.inf])
def test_on_policy_the_target_is_the_n_step_return(clip):
    _, reward, value, next_value, discount, trace = random_inputs((9, 2), 3)
    next_value[:-1] = np.where(trace[:-1] > 0, value[1:], next_value[:-1])  # one critic
    _, reward, value, next_value, discount, on = single([reward, reward, value, next_value, discount, trace > 0])
    got = vtrace(jnp.zeros((9, 2)), reward, value, next_value, discount, on, clip_rho=clip, clip_c=clip, clip_pg_rho=clip)
    returns = n_step(reward, next_value, discount, on, 9)
    np.testing.assert_allclose(got.target, returns, atol=1e-5)
    np.testing.assert_allclose(got.advantage, returns - value, atol=1e-5)
    shorter = vtrace(jnp.zeros((9, 2)), reward, value, next_value, discount, 0.9 * on)
    np.testing.assert_allclose(shorter.target, lambda_returns(reward, next_value, discount, 0.9 * on), atol=1e-5)


def test_no_gradient_reaches_a_vtrace_target():
    inputs = single(random_inputs((6, 2), 0))
    for output in VTrace._fields:
        total = lambda *inputs, output=output: getattr(vtrace(*inputs), output).sum()  # noqa: E731
        for name, grads in zip(NAMES, jax.grad(total, argnums=tuple(range(6)))(*inputs), strict=True):
            assert (grads == 0).all(), f"the {output} moves with {name}"


def test_an_action_that_the_policy_no_longer_takes_teaches_nothing():
    _, *others = single(random_inputs((6, 2), 1))
    got = vtrace(jnp.full((6, 2), -50.0), *others)
    np.testing.assert_allclose(got.target, others[1], atol=1e-5)
    np.testing.assert_allclose(got.advantage, 0.0, atol=1e-5)


def test_the_last_trace_does_not_matter():
    inputs = single(random_inputs((6, 2), 1))
    got, other = vtrace(*inputs), vtrace(*inputs[:-1], inputs[-1].at[-1].set(0.33))
    assert jax.tree.all(jax.tree.map(jnp.array_equal, got, other))


def test_huge_ratios_stay_finite():
    _, *others = single(random_inputs((6, 2), 2))
    got = vtrace(jnp.full((6, 2), 1e4), *others, clip_rho=np.inf, clip_c=1.0, clip_pg_rho=np.inf)
    assert jax.tree.all(jax.tree.map(lambda x: jnp.isfinite(x).all(), got))
    bounded = vtrace(jnp.full((6, 2), 20.0), *others, clip_rho=np.inf, clip_c=1.0, clip_pg_rho=np.inf)
    assert jax.tree.all(jax.tree.map(jnp.array_equal, got, bounded))


def test_clips_may_be_traced():
    inputs = single(random_inputs((6, 2), 2))
    many = jax.vmap(lambda clip: vtrace(*inputs, clip_rho=clip, clip_c=clip, clip_pg_rho=clip))(jnp.array([0.5, 1.0]))
    np.testing.assert_allclose(many.target[1], vtrace(*inputs).target, atol=1e-6)


def test_vtrace_names_what_is_wrong():
    one = jnp.ones((3, 2))
    with pytest.raises(rl.ShapeError, match=r"vtrace: log_rho has shape \(2, 2\); it must be that of reward, \(3, 2\)"):
        inspect.unwrap(vtrace)(one[1:], one, one, one, one, one)
    with pytest.raises(rl.ConfigError, match=r"vtrace: clip_c = 0\.0 must be positive"):
        vtrace(one, one, one, one, one, one, clip_c=0.0)


def test_the_public_name_is_the_function():
    import rl4jax.collect.vtrace  # noqa: F401

    assert rl.collect.vtrace is vtrace
