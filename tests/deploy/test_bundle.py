"""Bundles are data: what is in them, what reads them, and what is said of one that was tampered with."""

import json
import shutil
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from safetensors.numpy import load_file

import rl4jax as rl
from rl4jax import deploy
from rl4jax.deploy.bundle import digest
from rl4jax.deploy.run import play
from tests.deploy.policies import Toy, actor_critic
from tests.fresh_process import run


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    env = rl.VecEnv(rl.envs.CartPole(), 2)
    about = {"algorithm": "ppo", "env": "CartPole", "evaluation": {"mean": 500.0, "std": 0.0, "episodes": 100}}
    return deploy.export(actor_critic(env), env, tmp_path_factory.mktemp("bundle"), about=about, replay=b"GIF89a")


@pytest.fixture
def bundle(original, tmp_path):
    return shutil.copytree(original, tmp_path / "copy")


def test_a_bundle_has_all_that_was_promised(original):
    names = {"policy.onnx", "policy.stablehlo", "model.safetensors", "config.json", "README.md", "replay.gif"}
    assert {path.name for path in original.iterdir()} == names
    config = json.loads((original / "config.json").read_text())
    assert [port["name"] for port in config["inputs"]] == ["obs"]
    assert [port["name"] for port in config["outputs"]] == ["action", "logits", "value"]
    assert config["action_space"]["n"] == 2
    weights = load_file(original / "model.safetensors")
    assert {x.dtype for x in weights.values()} == {np.dtype(np.float32)}
    card = (original / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: rl4jax\n")
    assert "value: 500 +/- 0" in card


@pytest.mark.parametrize("runtime", deploy.RUNTIMES)
def test_one_observation_or_a_batch(original, runtime):
    act = deploy.load(original, runtime)
    one, carry = act([0.1, 0.0, -0.1, 0.0])
    many, _ = act(np.array([[0.1, 0.0, -0.1, 0.0]] * 3))
    assert carry is None
    assert one.dtype == np.int64
    assert one.shape == ()
    assert many.tolist() == [one] * 3
    said = act.outputs([0.1, 0.0, -0.1, 0.0])
    assert said["logits"].shape == (2,)
    assert said["value"].shape == ()


def test_numpy_and_onnxruntime_need_neither_jax_nor_the_training_code(original):
    program = f"""
import sys
from rl4jax import deploy
for runtime in ("numpy", "onnxruntime"):
    action, _ = deploy.load({str(original)!r}, runtime)([0.1, 0.0, -0.1, 0.0])
    assert int(action) in (0, 1)
print(sorted(name for name in sys.modules if name.split(".")[0] in ("jax", "equinox", "optax") or name.startswith(("rl4jax.algo", "rl4jax.nn", "rl4jax.collect"))))
"""
    done = run(program)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("name", ["policy.onnx", "policy.stablehlo", "model.safetensors"])
@pytest.mark.parametrize("how", ["cut off", "changed", "missing"])
def test_a_file_that_is_not_the_one_that_was_written(bundle, name, how):
    path = bundle / name
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(data[:-10] if how == "cut off" else data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(deploy.BundleError, match=f"{name} is (missing|not the file that was exported)"):
        deploy.load(bundle, "onnxruntime" if name == "policy.onnx" else "jax")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda config: "{", "cannot be read"),
        (lambda config: "[]", "is not of a bundle"),
        (lambda config: json.dumps(config | {"format": "other"}), "is not of a bundle"),
        (lambda config: json.dumps(config | {"version": 99}), "has version 99; this rl4jax reads 1"),
        (lambda config: json.dumps({k: v for k, v in config.items() if k != "outputs"}), "lacks outputs"),
    ],
)
def test_a_config_that_cannot_be_read(bundle, change, said):
    path = bundle / "config.json"
    path.write_text(change(json.loads(path.read_text())))
    with pytest.raises(deploy.BundleError, match=said):
        deploy.load(bundle)


def test_onnx_that_is_none(bundle):
    """Somebody may also write a hash that fits."""
    path = bundle / "config.json"
    config = json.loads(path.read_text())
    (bundle / "policy.onnx").write_bytes(b"not a program")
    config["files"]["policy.onnx"] = digest(b"not a program")
    path.write_text(json.dumps(config))
    for runtime in ("onnxruntime", "numpy"):
        with pytest.raises(deploy.BundleError, match="is no program"):
            deploy.load(bundle, runtime)


@pytest.mark.parametrize(
    ("obs", "said"),
    [
        ([0.0] * 3, r"obs has shape \(3,\); it must be \(4,\), or \(B, 4\)"),
        ([0.0, 0.0, 0.0, float("nan")], "obs has a number that is not finite"),
        ([[0.0, 0.0], [0.0]], "obs is no array"),
        (["a"] * 4, "obs is of <U1; it must be of float32"),
    ],
)
def test_observations_that_are_none(original, obs, said):
    with pytest.raises(rl.ShapeError, match=said):
        deploy.load(original)(obs)


def test_mistakes(original, tmp_path):
    with pytest.raises(deploy.BundleError, match=r"is not a folder, so it is no bundle. Give a folder that `rl4jax export"):
        deploy.load(tmp_path / "nowhere")
    with pytest.raises(rl.ConfigError, match=r"runtime = 'onnx' is not one we know. Known: jax, numpy, onnxruntime"):
        deploy.load(original, "onnx")
    with pytest.raises(rl.ShapeError, match=r"exported without one. Leave it out"):
        deploy.load(original)([0.0] * 4, mask=[True, False])


class Sorted(eqx.Module):
    """Uses what ONNX does not have."""

    def __call__(self, obs):
        return rl.nn.Categorical(jax.lax.linalg.qr(jnp.outer(obs, obs))[0][0, :2]), obs.sum()


class Through(eqx.Module):
    """Sends what it sees through a function."""

    function: Callable = eqx.field(static=True)

    def __call__(self, obs):
        return rl.nn.Categorical(self.function(obs)[:2]), obs.sum()


def test_what_cannot_be_exported_is_named(tmp_path):
    env = rl.VecEnv(rl.envs.CartPole(), 2)
    with pytest.raises(deploy.ExportError, match=r"cannot be exported: .*By themselves these fail: .*qr"):
        deploy.export(Sorted(), env, tmp_path)
    assert not (tmp_path / "config.json").exists()


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda obs: (jax.debug.print("{}", obs), obs)[1], "debug_print"),  # of which jax2onnx says something else
        (lambda obs: jax.scipy.special.gammainc(jnp.abs(obs) + 1, jnp.abs(obs) + 0.5), "igamma"),  # which it converts, but wrongly
    ],
)
def test_an_operation_that_the_converter_does_not_name_is_named(function, name, tmp_path):
    env = rl.VecEnv(rl.envs.CartPole(), 2)
    with pytest.raises(deploy.ExportError, match=f"By themselves these fail: {name}. Write the model without"):
        deploy.export(Through(function), env, tmp_path)


def test_spaces_with_parts_and_other_countings(tmp_path):
    """Observations and actions are the environment's own: dicts, tuples, choices that count from elsewhere, 64 bits."""
    env = rl.VecEnv(Toy(), 2)
    act = deploy.load(deploy.export(actor_critic(env), env, tmp_path))
    space = env.single_observation_space
    action, _ = act(space.sample())
    assert env.single_action_space.contains(action)
    many, _ = act(jax.tree.map(lambda *x: np.stack(x), *[space.sample() for _ in range(5)]))
    assert many["steer"].shape == (5, 2)
    with pytest.raises(rl.ShapeError, match="obs is a dict of"):
        act({"kind": 1})


def test_a_gymnasium_environment_plays_with_its_own_numbers(tmp_path):
    import gymnasium

    class Shifted(gymnasium.Env):
        observation_space = spaces.Dict({"observation": spaces.Box(-1, 1, (3,), np.float64), "action_mask": spaces.MultiBinary(4)})
        action_space = spaces.Discrete(4, start=10)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return {"observation": np.zeros(3), "action_mask": np.array([0, 1, 0, 0], np.int8)}, {}

        def step(self, action):
            assert action == 11
            return self.reset()[0], 1.0, False, True, {}

    env = rl.GymVecEnv(Shifted, num_envs=2)
    try:
        act = deploy.load(deploy.export(actor_critic(env), env, tmp_path, masked=True))
        assert play(act, Shifted(), 3).tolist() == [1.0] * 3
    finally:
        env.close()


def test_products_have_their_biases(original):
    """As one operation, which is most of what a small network costs."""
    import onnx

    kinds = [node.op_type for node in onnx.load(original / "policy.onnx").graph.node]
    assert kinds.count("Gemm") == 6
    assert "Add" not in kinds


def test_jax_is_as_it_was(original):
    """jax2onnx replaces functions of JAX while it traces."""
    assert jnp.cumsum(jnp.ones((2, 3)), axis=1, dtype=jnp.int32).tolist() == [[1, 2, 3]] * 2
    assert jnp.cumsum.__module__.startswith("jax.")


def test_episodes_in_a_batch_begin_anew_one_by_one(tmp_path, original):
    env = rl.VecEnv(rl.envs.CartPole(), 2)
    act, rng = deploy.load(deploy.export(actor_critic(env, core="gru"), env, tmp_path)), np.random.default_rng(0)
    before, now = rng.normal(size=(2, 3, 4)).astype(np.float32)
    over = np.array([False, True, False])
    _, carry = act(before, act.start(3))
    mixed = {name: np.where(over[:, None], act.start(3)[name], x) for name, x in carry.items()}
    said = act.outputs(now, mixed)["logits"]
    fresh, later = act.outputs(now)["logits"], act.outputs(now, carry)["logits"]
    np.testing.assert_array_equal(said, np.where(over[:, None], fresh, later))
    assert not np.isclose(fresh, later).any()
    np.testing.assert_array_equal(act.outputs(now[0], act.start())["logits"], act.outputs(now[0])["logits"])
    assert deploy.load(original).start(3) is None
