"""Dreamer's verbs: in-graph and on the host, saved and resumed, and with bad input. Small networks: that it learns is shown elsewhere."""

import contextlib
import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax.algo import dreamer
from rl4jax.algo.dreamer.learning import METRICS
from rl4jax.collect.replay.host_sequences import HostSequenceReplay
from rl4jax.collect.replay.sequences import SequenceReplay
from tests.algo.dreamer.small import SIZE

CFG = dreamer.Config(batch_size=2, length=4, capacity=60, num_steps=4, learning_starts=20, imagine_steps=3, train_ratio=4.0, lr=1e-3)


def begin(env, replay=None):
    return dreamer.init(dreamer.Agent(env, SIZE, key=jax.random.key(0)), env, CFG, key=jax.random.key(1), replay=replay)


def on_disk(env, tmp_path):
    return dreamer.replay_on_disk(tmp_path / "ring", dreamer.Agent(env, SIZE, key=jax.random.key(0)), env, CFG)


@functools.cache
def in_graph():
    return rl.VecEnv(rl.envs.CartPole(), num_envs=2)


def host():
    return rl.GymVecEnv("CartPole-v1", num_envs=2)


def arrays(tree):
    return jax.tree.leaves(jax.tree.map(lambda x: jax.random.key_data(x) if rl.core.contract.is_key(x) else x, tree))


def assert_same(ours, theirs):
    jax.tree.map(np.testing.assert_array_equal, arrays(ours), arrays(theirs))


def test_gradient_steps_follow_the_ratio_and_the_ring_turns():
    state, metrics = dreamer.train(begin(in_graph()), in_graph(), CFG, 12)
    # From the third update on 8 steps are played and 32 learned from: four gradient steps on 2 x 4.
    np.testing.assert_array_equal(metrics["train/gradient_steps"], [0, 0, *[4] * 10])
    assert set(METRICS) < set(metrics)
    assert np.isnan(metrics["train/loss"][:2]).all()
    assert np.isfinite(metrics["train/loss"][2:]).all()
    assert float(metrics["train/skipped"].sum()) == 0
    assert int(state.num_gradient_steps) == 40
    assert int(state.replay.size) == 60
    assert int(state.replay.added.sum()) > 60


def test_the_same_in_steps_of_ones_own_and_after_a_checkpoint(tmp_path):
    """Latents and all: a run that was saved and loaded ends like one that was not."""
    env, path = in_graph(), tmp_path / "state.safetensors"
    state = begin(env)
    for i in range(8):
        if i == 5:
            rl.save(path, state)
            state = rl.load(path, jax.eval_shape(lambda: begin(env)))
        state, rollout = dreamer.collect(state, env, CFG)
        state, _ = dreamer.update(state, rollout, CFG)
    whole, _ = dreamer.train(begin(env), env, CFG, 8)
    assert_same(state.replay.storage.latent.choice, whole.replay.storage.latent.choice)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), state.packed.params, whole.packed.params)


@pytest.mark.parametrize("where", ["graph", "memory", "disk"])
def test_a_checkpoint_is_all_of_a_run(where, tmp_path):
    """To the last bit: weights, latents, environments, chance."""
    path = tmp_path / "state.safetensors"

    def fresh():
        env = in_graph() if where == "graph" else host()
        return env, begin(env, on_disk(env, tmp_path) if where == "disk" else None)

    def rest(state, env):
        if where != "graph":  # an environment on the host cannot be saved: a new episode begins
            state = state._replace(playing=rl.collect.begin(state.policy, env, key=jax.random.key(2)))
        state, _ = dreamer.train(state, env, CFG, 4)
        env_state = state.playing.env_state if where == "graph" else None  # on the host it counts what this environment ever did
        return arrays(state._replace(playing=state.playing._replace(env_state=env_state)))

    env, state = fresh()
    state, _ = dreamer.train(state, env, CFG, 5)
    with state.replay.checkpointed() if where != "graph" else contextlib.nullcontext():
        rl.save(path, state)
    whole = jax.tree.map(np.array, rest(state, env))  # copies: what is on disk is written again
    env, other = fresh()
    assert_same(rest(rl.load(path, other), env), whole)


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_on_the_host(where, tmp_path):
    env = host()
    state, metrics = dreamer.train(begin(env, on_disk(env, tmp_path) if where == "disk" else None), env, CFG, 12)
    assert int(state.num_gradient_steps) == float(metrics["train/gradient_steps"].sum()) > 20
    learned = metrics["train/gradient_steps"] > 0
    assert np.isfinite(metrics["train/loss"][learned]).all()
    evaluation = rl.evaluate(state.policy, host(), num_episodes=2, key=jax.random.key(2))
    assert float(evaluation.lengths.mean()) > 5


def test_steps_that_are_not_finite_are_not_remembered():
    env = in_graph()
    state, rollout = dreamer.collect(begin(env), env, CFG)
    after, _ = dreamer.update(state, rollout._replace(reward=jnp.full_like(rollout.reward, jnp.nan)), CFG)
    # What came with the first observations is known: it is the start of an episode. All others came with a reward that is no number.
    assert int(after.replay.added.sum()) == env.num_envs


def test_gradient_steps_that_are_not_finite_are_left_out_and_nothing_is_lost():
    env = in_graph()
    state, _ = dreamer.train(begin(env), env, CFG, 3)
    state, rollout = dreamer.collect(state, env, CFG)
    too_much = dataclasses.replace(CFG, representation_coef=3e38)  # times a loss above 1 it is infinite
    after, metrics = dreamer.update(state, rollout, too_much)
    assert float(metrics["train/skipped"]) == float(metrics["train/gradient_steps"]) == 4
    assert_same(after.learner, state.learner)
    after, rollout = dreamer.collect(after, env, CFG)
    good, metrics = dreamer.update(after, rollout, CFG)
    assert float(metrics["train/skipped"]) == 0
    assert np.isfinite(metrics["train/loss"])
    assert not all(np.array_equal(x, y) for x, y in zip(arrays(good.packed.params), arrays(after.packed.params), strict=True))


class Toy(NamedTuple):
    """Spaces alone."""

    single_observation_space: Any
    single_action_space: Any = spaces.Discrete(2)


def like():
    return dreamer.moment_like(dreamer.Agent(in_graph(), SIZE, key=jax.random.key(0)), in_graph())


VECTOR = spaces.Box(-1, 1, (3,))


def agent_for(actions):
    return dreamer.Agent(Toy(VECTOR, actions), SIZE, key=jax.random.key(0))


def begun(**settings):
    agent = dreamer.Agent(in_graph(), SIZE, key=jax.random.key(0))
    return dreamer.init(agent, in_graph(), dreamer.Config(**settings), key=jax.random.key(1))


@pytest.mark.parametrize(
    ("mistake", "error", "said"),
    [
        (lambda: dreamer.Agent(Toy(VECTOR, spaces.MultiBinary(3)), SIZE, key=jax.random.key(0)), rl.EnvError, "actions are MultiBinary"),
        (lambda: dreamer.Agent(Toy(spaces.Box(0, 1, (17, 17, 3))), SIZE, key=jax.random.key(0)), rl.ShapeError, "can be halved 0 times"),
        (
            lambda: dreamer.Agent(Toy(spaces.Box(0, 1, (84, 84, 3))), SIZE, key=jax.random.key(0)),
            rl.ShapeError,
            "which leaves 21 x 21 pixels",
        ),
        (lambda: dreamer.Agent(Toy(spaces.Box(-np.inf, np.inf, (8, 8, 3))), SIZE, key=jax.random.key(0)), rl.EnvError, "without bounds"),
        (lambda: dreamer.Agent(Toy(VECTOR), "1b", key=jax.random.key(0)), rl.ConfigError, "size = '1b' is not one we know"),
        (
            lambda: dreamer.init(
                dreamer.Agent(in_graph(), SIZE, key=jax.random.key(0)), in_graph(), dreamer.Config(capacity=100), key=jax.random.key(1)
            ),
            rl.ConfigError,
            r"dreamer.Config.capacity = 100 must be at least \(length \+ 1\) \* num_envs = 130",
        ),
        (lambda: begin(in_graph(), SequenceReplay.empty(30, 3, like())), rl.ShapeError, r"in 2 streams, its items .* in 3, of which"),
        (
            lambda: begin(in_graph(), SequenceReplay.empty(30, 2, like()._replace(reward=jnp.int32(0)))),
            rl.ShapeError,
            "is not for the steps",
        ),
        (
            lambda: begin(in_graph(), SequenceReplay.empty(4, 2, like())),
            rl.ConfigError,
            r"replay.capacity \* num_envs = 8 must be at least \(length \+ 1\) \* num_envs = 10",
        ),
        (
            lambda: begin(in_graph(), SequenceReplay.empty(7, 2, like())),
            rl.ConfigError,
            r"replay.capacity \* num_envs = 14 must be at least 2 \* num_steps",
        ),
        (
            lambda: begin(in_graph(), SequenceReplay.empty(9, 2, like())),
            rl.ConfigError,
            "learning_starts = 20 must be at most 18",  # it would never begin
        ),
        (
            lambda: begin(in_graph(), HostSequenceReplay.empty(30, 2, like())),
            rl.ConfigError,
            "in-graph, = 'HostSequenceReplay' must be a SequenceReplay",
        ),
        (lambda: begin(host(), HostSequenceReplay.empty(30, 2, like())), rl.ShapeError, r"of which \(\) may be rewritten"),
        (lambda: dreamer.Config(hold=1.5), rl.ConfigError, "hold = 1.5 must be"),
        (lambda: dreamer.Config(lam=2.0), rl.ConfigError, "lam"),
        (lambda: dreamer.Config(b2=1.0), rl.ConfigError, r"b2 = 1.0 must be in \[0, 1\)"),
        (lambda: dreamer.Config(representation_coef=-1.0), rl.ConfigError, "representation_coef = -1.0 must be zero or more"),
        (lambda: dreamer.Config(imagine_from=65), rl.ConfigError, "imagine_from = 65 must be 0 for all, or from 2 to length"),
        (lambda: dreamer.Config(imagine_from=1), rl.ConfigError, "imagine_from = 1 must be 0 for all, or from 2 to length = 64"),
        (lambda: dreamer.Config(length=1), rl.ConfigError, "length = 1 must be at least 2"),
        (lambda: dreamer.Config(return_decay=1.0), rl.ConfigError, "return_decay = 1.0 must be in"),
        (lambda: agent_for(spaces.Box(np.float32([-1, 2]), np.float32([1, 2]))), rl.EnvError, "low must be less than high"),
        (lambda: agent_for(spaces.Box(-3e38, 3e38, (1,))), rl.EnvError, "a Box must have finite bounds"),
        (lambda: agent_for(spaces.Box(0, 5, (1,), np.int32)), rl.EnvError, "a Box must hold floats"),
        (lambda: dreamer.Agent(Toy(spaces.Box(1, 1, (16, 16, 3))), SIZE, key=jax.random.key(0)), rl.EnvError, "low must be less than high"),
        (
            lambda: dreamer.Agent(Toy(VECTOR), SIZE._replace(classes=300), key=jax.random.key(0)),
            rl.ConfigError,
            "classes = 300 must be at most 256",
        ),
        (
            lambda: begun(capacity=60, length=4, num_steps=16, learning_starts=0),
            rl.ConfigError,
            r"capacity = 60 must be at least 2 \* num_steps",
        ),
        (
            lambda: begun(capacity=101, length=4, num_steps=4, learning_starts=101),
            rl.ConfigError,
            "learning_starts = 101 must be at most 100",
        ),
    ],
)
def test_mistakes(mistake, error, said):
    with pytest.raises(error, match=said):
        mistake()
