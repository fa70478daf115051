"""Every kind of policy does the same on JAX, on onnxruntime and on NumPy: for random observations, and in whole episodes."""

import functools
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

from rl4jax import deploy
from tests.deploy.agreement import NUM, assert_agree, assert_play_alike, close_actions, random_masks, random_obs
from tests.deploy.policies import KINDS, build

kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    @functools.cache
    def of(kind):
        model, env, masked = build(kind)
        return model, env, masked, deploy.export(model, env, tmp_path_factory.mktemp("bundle"), masked=masked)

    return of


@kinds
def test_all_runtimes_agree_on_random_observations(kind, bundle):
    assert_agree(*bundle(kind))


@kinds
def test_all_runtimes_play_as_well(kind, bundle):
    assert_play_alike(*bundle(kind))


@pytest.mark.slow
@kinds
def test_all_runtimes_sample_alike(kind, tmp_path):
    """The chance comes from outside: the same seed, the same actions."""
    model, env, masked = build(kind)
    folder = deploy.export(model, env, tmp_path, masked=masked, sample=True)
    rng = np.random.default_rng(0)
    obs = random_obs(env.single_observation_space, rng)
    mask = random_masks(env.single_action_space, rng) if masked else None
    ours, *others = (deploy.load(folder, runtime, seed=1)(obs, None, mask) for runtime in deploy.RUNTIMES)
    for theirs in others:
        jax.tree.map(close_actions, theirs, ours)


@pytest.mark.parametrize("with_onnx", [True, False])
def test_onnxruntime_has_a_second_program_only_where_it_can_leave_something_out(with_onnx, bundle, monkeypatch):
    *_, folder = bundle("choice")
    if not with_onnx:
        monkeypatch.setitem(sys.modules, "onnx", None)
    sessions, start = [], onnxruntime.InferenceSession
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *args, **how: sessions.append(args[0]) or start(*args, **how))
    act = deploy.load(folder)
    for _ in range(2):
        act(np.zeros(4))
        act.outputs(np.zeros(4))
    assert len(sessions) == len(set(sessions)) == (2 if with_onnx else 1)


def test_numpy_rounds_equal_columns_alike(tmp_path):
    """Before much is learned a critic's mirror bins say the same, and whatever differs between them is weighed by e^20."""
    model, env, _ = build("dreamer, choice")
    last = model.value.last
    half = jax.random.normal(jax.random.key(4), (last.weight.shape[0], last.weight.shape[1] // 2))
    mirrored = jnp.concatenate([half, jnp.zeros((len(half), 1)), half[:, ::-1]], 1)
    model = eqx.tree_at(lambda x: (x.value.last.weight, x.value.last.bias), model, (mirrored, jnp.zeros_like(last.bias)))
    folder = deploy.export(model, env, tmp_path)
    obs = random_obs(env.single_observation_space, np.random.default_rng(0))
    for runtime in deploy.RUNTIMES:
        assert np.abs(deploy.load(folder, runtime).outputs(obs)["value"]).max() < 1e-5, runtime


def test_sampled_actions_are_as_frequent_as_their_probabilities(tmp_path):
    model, env, _ = build("choice")
    act = deploy.load(deploy.export(model, env, tmp_path, sample=True), seed=0)
    obs = np.array([0.5, -1.0, 0.3, 2.0], np.float32)
    probability = jax.nn.softmax(act.outputs(obs)["logits"])[1]
    actions, _ = act(np.tile(obs, (NUM, 1)))
    assert 0.05 < probability < 0.95, "both happen"
    assert actions.mean() == pytest.approx(float(probability), abs=4 * np.sqrt(0.25 / NUM))
