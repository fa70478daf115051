"""Dreamer's update with every kind of action, observation and representation; with an optimizer of one's own; for many seeds at once."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax.algo import dreamer
from tests.algo.dreamer.small import SIZE

# 8 steps in each of 2 environments are enough for one gradient step at once.
CFG = dreamer.Config(
    batch_size=2,
    length=4,
    capacity=60,
    num_steps=8,
    learning_starts=16,
    imagine_steps=3,
    train_ratio=0.5,
    lr=1e-2,
    slow_rate=0.2,
    free_nats=0.0,
)


class Watched(rl.AbstractEnv):
    """Two numbers and a picture; the reward is for what was done, and after five steps it ends."""

    @property
    def observation_space(self):
        return spaces.Dict(numbers=spaces.Box(-1, 1, (2,), np.float32), picture=spaces.Box(0, 255, (8, 8, 1), np.uint8))

    @property
    def action_space(self):
        return spaces.Discrete(2)

    def seen(self, state):
        return {"numbers": jnp.ones(2) / (1 + state), "picture": jnp.full((8, 8, 1), 50 * state, jnp.uint8)}

    def reset(self, key):
        return jnp.int32(0), self.seen(jnp.int32(0))

    def step(self, state, action, key):
        state = state + 1
        return state, rl.Step(self.seen(state), jnp.asarray(action, jnp.float32), state == 5, jnp.array(False))


few_prototypes = functools.partial(dreamer.Prototypes, num_prototypes=6, d_prototype=5, shift=1, frozen_for=0)
KINDS = {
    "continuous": (rl.envs.Pendulum(), "decoder"),
    "choices": (rl.envs.MultiDiscreteNav(), "infonce"),
    "dict": (Watched(), "decoder"),
    "pictures": (rl.envs.Catch(rows=8, columns=8), few_prototypes),
}


def begun(kind, seed, opt=None):
    env, representation = KINDS[kind]
    env, (model_key, key) = rl.VecEnv(env, num_envs=2), jax.random.split(jax.random.key(seed))
    return env, dreamer.init(dreamer.Agent(env, SIZE, representation, key=model_key), env, CFG, key=key, opt=opt)


def updated(env, state, opt=None, **options):
    """Before and after one update, and its metrics."""
    state, rollout = dreamer.collect(state, env, CFG)
    return state, *dreamer.update(state, rollout, CFG, opt, **options)


def changed_parts(before, after):
    before, after = before.packed.params, after.packed.params
    return {name.split(".")[0] for name in before if not np.array_equal(before[name], after[name])}


@pytest.mark.parametrize("kind", KINDS)
def test_one_update_teaches_every_part(kind):
    before, after, metrics = updated(*begun(kind, 0))
    assert float(metrics["train/gradient_steps"]) == 1
    assert float(metrics["train/skipped"]) == 0
    assert np.isfinite(list(metrics.values())).all()
    assert changed_parts(before, after) == {"encoder", "rssm", "reward", "goes_on", "policy", "value", "representation"}
    assert all(np.isfinite(x).all() for x in after.packed.params.values())


def of_the_critic(tree):
    """Gradients of the critic alone; metrics as they are."""
    grads, metrics = tree
    return {name: x if name.startswith("value.") else 0 * x for name, x in grads.items()}, metrics


@functools.cache
def with_ones_own():
    """An update by plain descent with rate 1, of what `of_the_critic` leaves."""
    opt = optax.sgd(1.0)
    env, state = begun("continuous", 0, opt)
    behind = jax.tree.map(lambda x: x + 0.01, state.slow_value)
    return updated(env, state._replace(slow_value=behind), opt, reduce=of_the_critic)


def test_an_optimizer_of_ones_own_replaces_the_other_and_gradients_are_reduced():
    before, after, metrics = with_ones_own()
    assert changed_parts(before, after) == {"value"}
    change = jax.tree.map(jnp.subtract, after.packed.params, before.packed.params)
    assert float(optax.tree.norm(change)) == pytest.approx(float(metrics["train/grad_norm"]), rel=1e-4)


def test_machines_that_average_stay_the_same():
    """Two of them, each with its own environments and dreams: weights, slow critic and the scale of returns."""
    (env, one), (_, other) = (begun("continuous", seed) for seed in (0, 1))
    wide = one.normalizer._replace(low_return=jnp.float32(-3), high_return=jnp.float32(5))  # as if its dreams had been others
    other = other._replace(**one.learner._asdict() | {"normalizer": wide})
    average = functools.partial(jax.lax.pmean, axis_name="machines")
    with jax.debug_key_reuse(False):  # each state is used twice
        _, after, _ = jax.vmap(lambda state: updated(env, state, reduce=average), axis_name="machines")(
            jax.tree.map(lambda *x: jnp.stack(x), one, other)
        )
    for part in (after.packed.params, after.slow_value.params, after.normalizer):
        for x in jax.tree.leaves(part):
            np.testing.assert_allclose(x[0], x[1], rtol=1e-6)
    assert 0 < float(after.normalizer.high_return[0]) < 5


def test_the_slow_critic_follows_what_the_critic_is_after_the_step():
    before, after, _ = with_ones_own()
    for name, slow in after.slow_value.params.items():
        old, new = before.slow_value.params[name], after.packed.params[f"value.{name}"]
        np.testing.assert_allclose(slow, 0.8 * old + 0.2 * new, rtol=1e-5, atol=1e-6, err_msg=name)
    assert float(jnp.abs(after.packed.params["value.last.bias"]).max()) > 1e-3, "it was 0"


def test_two_seeds_side_by_side_are_each_alone():
    (env, one), (_, other) = (begun("continuous", seed) for seed in (0, 1))

    def weights_and_loss(state):
        _, after, metrics = updated(env, state)
        return after.packed.params, metrics["train/loss"]

    with jax.debug_key_reuse(False):  # each state is used twice
        alone = [weights_and_loss(state) for state in (one, other)]
        together, losses = jax.jit(jax.vmap(weights_and_loss))(jax.tree.map(lambda *x: jnp.stack(x), one, other))
    for i, (params, loss) in enumerate(alone):
        assert float(losses[i]) == pytest.approx(float(loss), rel=1e-4)
        for name, weight in params.items():
            np.testing.assert_allclose(together[name][i], weight, atol=1e-4, err_msg=name)
    assert losses[0] != losses[1]
