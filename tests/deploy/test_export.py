"""What is exported is right and says nothing that it should not; what cannot be exported leaves all as it was; strangers' bundles do no harm."""

import inspect
import json
import shutil
from importlib import metadata
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from gymnasium import spaces
from jax import export as jax_export
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load as load_weights, save as save_weights

import rl4jax as rl
from rl4jax import deploy
from rl4jax.deploy.bundle import digest
from rl4jax.deploy.card import write_card
from rl4jax.deploy.comparison import check, difference, random_input
from rl4jax.deploy.program import Port, make_program
from rl4jax.deploy.stablehlo_file import to_stablehlo
from rl4jax.nn.distributions import AbstractDistribution
from tests.deploy.policies import actor_critic

ENV = rl.VecEnv(rl.envs.CartPole(), 2)
OBS = np.array([0.1, -0.2, 0.3, 0.4], np.float32)
NO_PARTS = {"type": "Tuple", "spaces": []}
BARE = {"inputs": [], "outputs": [], "carry": [], "noise": [], "mask": None, "normalisation": None, "versions": {"rl4jax": "1"}}
BARE |= {"observation_space": NO_PARTS, "action_space": NO_PARTS}


class Small(eqx.Module):
    """Quick to export. Its exponential overflows where observations are large, and nothing comes of it."""

    weight: jax.Array = eqx.field(default_factory=lambda: jax.random.normal(jax.random.key(0), (2, 4)))

    def __call__(self, obs):
        return rl.nn.Categorical(self.weight @ jnp.minimum(jnp.exp(obs), 10.0)), obs.sum()


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return deploy.export(Small(), ENV, tmp_path_factory.mktemp("some") / "my bundle", about={"algorithm": "ppo", "env": "gym:Cart"})


@pytest.fixture
def bundle(original, tmp_path):
    return shutil.copytree(original, tmp_path / "copy")


def replace(bundle, name, data):
    """A file of a bundle by another, with the hash that fits: as somebody would who means harm."""
    config = json.loads((bundle / "config.json").read_text())
    config["files"][name] = digest(data)
    (bundle / "config.json").write_text(json.dumps(config))
    (bundle / name).write_bytes(data)
    return bundle


# What is in a bundle


def test_a_bundle_does_not_say_where_it_was_made(original):
    for path in original.iterdir():
        for place in (Path(rl.__file__).parents[1], Path(__file__), original.parent):
            assert str(place).encode() not in path.read_bytes(), path.name
    assert jax.config.jax_traceback_in_locations_limit > 0


def test_the_card_is_used_from_outside_of_the_folder(original):
    """Inside of it, Python would import what lies there."""
    card = (original / "README.md").read_text()
    assert 'deploy.load("my bundle")' in card
    assert "\npython -m rl4jax.deploy.run 'my bundle' --env gym:Cart\n" in card


@pytest.mark.parametrize("name", ["CartPole", "Env,name='a: b'", "a # b", "[x]", "*x", "@x", "yes", "123", "x\ny: z", '"', "ü", "- x"])
def test_front_matter_is_yaml_whatever_the_names(name):
    about = {"env": name, "algorithm": name, "evaluation": {"mean": 1.0, "std": 0.0, "episodes": 2}}
    front = yaml.safe_load(write_card(BARE | about, "folder", False).split("---\n")[1])
    assert front["tags"][-1] == name
    assert front["model-index"][0]["name"] == f"{name} on {name}"
    assert front["model-index"][0]["results"][0]["dataset"] == {"name": name, "type": name}


def test_a_card_without_an_environment():
    card = write_card(BARE, "folder", False)
    assert yaml.safe_load(card.split("---\n")[1])["tags"] == ["reinforcement-learning", "deep-reinforcement-learning", "rl4jax", "onnx"]
    assert "--env" not in card


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"loss": np.float32(1)}, r"about = .* cannot be written as JSON: .*float32.* float\(x\)"),
        ({"loss": float("nan")}, "about = .* cannot be written as JSON"),
        ({"env": 5}, r"about\['env'\] = 5 must be a text"),
        ({"evaluation": {"mean": 1.0}}, r"about\['evaluation'\] = .* must be a dict with the numbers mean, std, episodes"),
    ],
)
def test_what_cannot_be_told_of_a_policy(about, said, tmp_path):
    with pytest.raises(rl.ConfigError, match=said):
        deploy.export(Small(), ENV, tmp_path / "new", about=about)
    assert not (tmp_path / "new").exists()


def test_arguments_of_the_wrong_kind(tmp_path):
    export = inspect.unwrap(deploy.export)  # without the checks of types that only tests have
    with pytest.raises(rl.ConfigError, match=r"about = \[1\] must be a dict"):
        export(Small(), ENV, tmp_path, about=[1])
    with pytest.raises(rl.ConfigError, match="replay = 'str' must be the bytes of a GIF"):
        export(Small(), ENV, tmp_path, replay="replay.gif")
    with pytest.raises(TypeError, match="model is the class Small"):
        export(Small, ENV, tmp_path)


def test_what_is_told_replaces_nothing_of_ours_and_packages_may_have_other_names(tmp_path, monkeypatch):
    version = metadata.version

    def elsewhere(name):
        if name == "onnxruntime":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", elsewhere)
    deploy.export(Small(), ENV, tmp_path, about={"version": "2.0", "format": "ppo", "inputs": 1, "files": 3, "note": "mine"})
    config = deploy.load(tmp_path).config
    assert config["note"] == "mine"
    assert "onnxruntime" not in config["versions"]


# What cannot be exported


class Fourier(Small):
    def __call__(self, obs):
        return rl.nn.Categorical(self.weight @ jnp.abs(jnp.fft.fft(obs))), obs.sum()


class Half(Small):
    def __call__(self, obs):
        return rl.nn.Categorical((self.weight.astype(jnp.bfloat16) @ obs.astype(jnp.bfloat16)).astype(jnp.float32)), obs.sum()


class Drawn(Small):
    def __call__(self, obs):
        return rl.nn.Categorical(self.weight @ obs + jax.random.normal(jax.random.key(0), (2,))), obs.sum()


class NotFinite(Small):
    def __call__(self, obs):
        return rl.nn.Categorical(self.weight @ obs), obs.sum() * jnp.nan


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Fourier(), r"cannot be exported: onnxruntime said .*DFT.* By themselves these fail: .*fft"),
        (Half(), r"cannot be exported: onnxruntime said .* By themselves these fail: .*dot_general"),
        (Drawn(), r"cannot be exported: onnxruntime said .* By themselves these fail: .*bitcast_convert_type"),
        (NotFinite(), "value of this model is not finite"),
    ],
)
def test_a_failed_export_leaves_the_bundle_that_was_there(model, said, bundle):
    before = {path.name: path.read_bytes() for path in bundle.iterdir()}
    with pytest.raises(deploy.ExportError, match=said):
        deploy.export(model, ENV, bundle)
    assert {path.name: path.read_bytes() for path in bundle.iterdir()} == before


def test_a_new_bundle_leaves_nothing_of_the_old_one(bundle):
    assert deploy.export(Small(), ENV, bundle, replay=b"GIF89a") == bundle
    assert (bundle / "replay.gif").is_file()
    deploy.export(Small(jnp.ones((2, 4))), ENV, bundle)
    assert not (bundle / "replay.gif").exists()
    assert deploy.load(bundle).outputs(OBS)["logits"][0] == deploy.load(bundle, "jax").outputs(OBS)["logits"][1]


class Native(Small):
    def __call__(self, obs):
        return rl.nn.Categorical(jnp.linalg.qr(jnp.outer(obs, obs))[0][0, :2]), obs.sum()


def test_calls_of_native_functions_are_not_exported():
    program = make_program(Native(), ENV.single_observation_space, ENV.single_action_space)
    with pytest.raises(deploy.ExportError, match=r"it calls .*lapack_sgeqrf_ffi"):
        to_stablehlo(program)


class Parts(rl.AbstractEnv):
    """Two parts of the observation, whose names are one if a dot is between them."""

    observation_space = spaces.Dict({"a.b": spaces.Box(-1, 1, (2,)), "a": spaces.Dict({"b": spaces.Box(-1, 1, (2,))})})
    action_space = spaces.Discrete(2)

    def reset(self, key):
        return jnp.int32(0), {"a.b": jnp.zeros(2), "a": {"b": jnp.zeros(2)}}

    def step(self, state, action, key):
        return state + 1, rl.Step(self.reset(key)[1], jnp.float32(0), terminated=state > 3, truncated=jnp.array(False))


def test_two_parts_of_one_name(tmp_path):
    env = rl.VecEnv(Parts(), 2)
    with pytest.raises(deploy.ExportError, match=r"\['obs'\]\['a'\]\['b'\] and \['obs'\]\['a.b'\] would both be called 'obs.a.b'"):
        deploy.export(actor_critic(env), env, tmp_path)


# What is compared


def test_a_difference_is_seen_beside_what_a_mask_forbids(tmp_path):
    """Whose logits are so low that no difference counts beside them."""
    env = rl.VecEnv(rl.envs.GridWorld(), 2)
    model = actor_critic(env)
    policy = deploy.load(deploy.export(model, env, tmp_path, masked=True))
    program, engine = make_program(model, env.single_observation_space, env.single_action_space, masked=True), policy.engine
    check(program, policy)
    policy.engine = lambda inputs, names: {k: x + np.float32(0.01) if k == "logits" else x for k, x in engine(inputs, names).items()}
    with pytest.raises(deploy.ExportError, match="logits differs"):
        check(program, policy)


NOTHING_HIDDEN = {"action": np.zeros(256, np.int32), "value": np.ones(256, np.float32) / 3}


@pytest.mark.parametrize(
    "one_hot", [np.eye(4, dtype=np.float32)[np.arange(256) % 4], np.eye(4, dtype=np.float32)[np.arange(256) % 4] - 6e-8]
)
def test_a_choice_may_fall_either_way_in_a_few_examples_and_with_it_what_follows(one_hot):
    """A latent of Dreamer is a choice too, as a one-hot vector."""
    want = NOTHING_HIDDEN | {"next_carry.stoch": one_hot}
    for examples, said in ((2, None), (3, "value differs: ONNX says 7.0, JAX 0.3333333432674408")):
        got = {name: x.copy() for name, x in want.items()}
        got["next_carry.stoch"][:examples] = np.roll(one_hot[:examples], 1, axis=1)
        got["value"][:examples] = 7.0
        assert difference(got, want) == said


@pytest.mark.parametrize(("name", "other"), [("value", 7.0), ("latent", 0.5)])
def test_numbers_that_are_no_choices_are_the_same_in_all_examples(name, other):
    want = NOTHING_HIDDEN | {"latent": np.zeros((256, 4), np.float32)}
    got = {key: x.copy() for key, x in want.items()}
    got[name][-1] = other
    assert f"{name} differs: ONNX says {other}" in difference(got, want)


def test_pictures_are_tried_with_all_their_values():
    assert random_input(np.random.default_rng(0), Port("obs", (8, 8), "uint8"), None).max() == 255


# What some models do


class Branches(Small):
    """What a branch computes with comes from outside of it."""

    def __call__(self, obs):
        seen = jnp.tanh(obs)
        logits = jax.lax.cond(self.weight[0, 0] > 0, lambda: self.weight @ seen, lambda: (self.weight - 1) @ seen)
        return rl.nn.Categorical(logits), seen.sum()


class Constant(Small):
    """A memory that never changes, and one that is another's."""

    def initial_carry(self):
        return {"number": jnp.ones(2), "flag": jnp.array([True]), "count": jnp.array([3], jnp.int8), "seen": jnp.zeros(4)}

    def __call__(self, obs, carry):
        return rl.nn.Categorical(self.weight @ obs), obs.sum(), carry | {"seen": obs}


class Mine(AbstractDistribution):
    """Somebody's own, whose parameters have names of ours."""

    action: jax.Array
    value: jax.Array
    chance = None
    mask_size = 2
    maskable = False

    def mode(self):
        return jnp.argmax(self.action).astype(jnp.int32)

    def masked(self, mask):
        return self

    sample_from = log_prob = entropy = kl = tempered = None


class Own(Small):
    def __call__(self, obs):
        return Mine(self.weight @ obs, 77.0 + obs[0]), obs.sum()


@pytest.mark.parametrize("model", [Branches(), Constant(), Own()], ids=lambda model: type(model).__name__)
def test_all_runtimes_do_what_the_model_does(model, tmp_path):
    deploy.export(model, ENV, tmp_path)
    carry = jax.tree.map(np.asarray, model.initial_carry()) if isinstance(model, Constant) else None
    pi, value, *_ = model(OBS) if carry is None else model(OBS, carry)
    for runtime in deploy.RUNTIMES:
        act = deploy.load(tmp_path, runtime)
        said, (action, after) = act.outputs(OBS), act(OBS)
        assert action == pi.mode()
        assert said["value"] == pytest.approx(float(value), rel=1e-5)
        if isinstance(pi, Mine):
            np.testing.assert_allclose(said["pi.action"], pi.action, rtol=1e-5)
            assert said["pi.value"] == pytest.approx(float(pi.value))
        else:
            np.testing.assert_allclose(said["logits"], pi.logits, rtol=1e-5)
        if carry is not None:
            assert after is not None
            assert {name: x.tolist() for name, x in after.items()} == {
                f"carry.{name}": x.tolist() for name, x in sorted((carry | {"seen": OBS}).items())
            }


def test_numpy_does_not_warn_of_what_is_too_large(original):
    """Here warnings are errors."""
    assert deploy.load(original, "numpy").outputs(np.full(4, 1000.0))["logits"].shape == (2,)


# Bundles of strangers


def test_programs_read_no_other_files(bundle, tmp_path, monkeypatch):
    """Such as those of the folder in which a server was started."""
    secret = TensorProto(name="secret", data_type=TensorProto.FLOAT, dims=[4, 2], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "secret.txt", "offset": "0", "length": "32"}.items():
        secret.external_data.add(key=key, value=value)
    monkeypatch.chdir(tmp_path)
    Path("secret.txt").write_bytes(bytes(32))
    shape = helper.make_tensor_value_info
    logits = shape("logits", TensorProto.FLOAT, ["batch", 2])
    bodies = [
        helper.make_graph([helper.make_node("MatMul", ["obs", "secret"], ["logits"])], f"body{i}", [], [logits], initializer=[secret])
        for i in range(2)
    ]
    nodes = [
        helper.make_node("ReduceSum", ["obs", "axis"], ["value"], keepdims=0),
        helper.make_node("ReduceMax", ["obs"], ["most"], keepdims=0),
        helper.make_node("Cast", ["most"], ["which"], to=TensorProto.BOOL),
        helper.make_node("If", ["which"], ["said"], then_branch=bodies[0], else_branch=bodies[1]),
        helper.make_node("ArgMax", ["said"], ["index"], axis=1, keepdims=0),
        helper.make_node("Cast", ["index"], ["action"], to=TensorProto.INT32),
        helper.make_node("Identity", ["said"], ["logits"]),
    ]
    outputs = [shape("action", TensorProto.INT32, ["batch"]), logits, shape("value", TensorProto.FLOAT, ["batch"])]
    graph = helper.make_graph(
        nodes, "policy", [shape("obs", TensorProto.FLOAT, ["batch", 4])], outputs, [numpy_helper.from_array(np.array([1]), "axis")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    replace(bundle, "policy.onnx", model.SerializeToString())
    for runtime, said in {"onnxruntime": "policy.onnx/secret.txt", "numpy": "keeps weights in other files"}.items():
        with pytest.raises(deploy.BundleError, match=said):
            deploy.load(bundle, runtime)


def test_programs_call_no_native_functions(bundle):
    name = "xla_ffi_python_cpu_callback"  # which takes an address

    def harm(weights, obs):
        more = jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((4,), jnp.float32), has_side_effect=True)(jnp.ones(4), index=np.uint64(0))
        return [jnp.argmax(obs, 1).astype(jnp.int32), obs[:, :2] + more[0], obs.sum(1)]

    weights = {key: jax.ShapeDtypeStruct(x.shape, x.dtype) for key, x in load_weights((bundle / "model.safetensors").read_bytes()).items()}
    checks = [jax_export.DisabledSafetyCheck.custom_call(name)]
    (batch,) = jax_export.symbolic_shape("batch")
    program = jax_export.export(jax.jit(harm), disabled_checks=checks)(weights, jax.ShapeDtypeStruct((batch, 4), jnp.float32))
    replace(bundle, "policy.stablehlo", bytes(program.serialize()))
    with pytest.raises(deploy.BundleError, match=f"policy.stablehlo calls {name}, which no exported policy does"):
        deploy.load(bundle, "jax")


@pytest.mark.parametrize("first", [{"a": {"b": 0}}, [0], 0], ids=["nested", "list", "array"])
def test_programs_take_the_weights_by_name(first, bundle):
    (batch,) = jax_export.symbolic_shape("batch")

    def step(weights, obs):
        return [jnp.argmax(obs, 1).astype(jnp.int32), obs[:, :2], obs.sum(1)]

    weights = jax.tree.map(lambda _: jax.ShapeDtypeStruct((2, 4), jnp.float32), first)
    program = jax_export.export(jax.jit(step))(weights, jax.ShapeDtypeStruct((batch, 4), jnp.float32))
    replace(bundle, "policy.stablehlo", bytes(program.serialize()))
    with pytest.raises(deploy.BundleError, match=r"policy.stablehlo is no program that JAX can run: its first argument is not the weights"):
        deploy.load(bundle, "jax")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda weights: b"junk" * 10, "cannot be read"),
        (lambda weights: save_weights({}), r"does not fit policy.stablehlo: 'weight' is not there, but in the program float32 \(2, 4\)"),
        (lambda weights: save_weights(weights | {"more": np.zeros(1)}), r"'more' is float64 \(1,\), but in the program not there"),
        (lambda weights: save_weights({"weight": np.zeros((2, 3), np.float32)}), r"'weight' is float32 \(2, 3\)"),
        (lambda weights: save_weights({"weight": np.zeros((2, 4))}), r"'weight' is float64 \(2, 4\)"),
    ],
)
def test_weights_that_are_not_those_of_the_program(change, said, bundle):
    replace(bundle, "model.safetensors", change(load_weights((bundle / "model.safetensors").read_bytes())))
    with pytest.raises(deploy.BundleError, match=f"model.safetensors .*{said}"):
        deploy.load(bundle, "jax")
