"""What is said of a bundle, an observation or an argument that is not as it should be: never an error of NumPy, ONNX or JAX."""

import copy
import json
import os
import re
import shutil

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces as S

import rl4jax as rl
from rl4jax import deploy
from rl4jax.core.errors import ConfigError, EnvError, Rl4JaxError, ShapeError
from rl4jax.deploy import run
from rl4jax.deploy.codec import decoder, encoder, reader
from rl4jax.deploy.config_check import NOISE, check_config
from rl4jax.deploy.policy import DRAW, Policy
from rl4jax.deploy.server import example
from rl4jax.deploy.space_words import in_words
from tests import fresh_process


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A policy that takes all that there is: a mask, a carry and noise."""
    env = rl.VecEnv(rl.envs.GridWorld(), 2)
    model = rl.nn.ActorCritic(env, key=jax.random.key(0), hidden=(8,), core="gru")
    return deploy.export(model, env, tmp_path_factory.mktemp("bundle"), masked=True, sample=True, about={"env": "GridWorld"})


@pytest.fixture
def bundle(original, tmp_path):
    return shutil.copytree(original, tmp_path / "copy")


def read(folder):
    return json.loads((folder / "config.json").read_text())


def write(folder, config):
    (folder / "config.json").write_text(json.dumps(config))


GONE = object()


def changed(config, path, value):
    """A config with something else at one place."""
    config = part = copy.deepcopy(config)
    for key in path[:-1]:
        part = part[key]
    if value is GONE:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return config


def paths(x, path=()):
    for key, part in x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ():
        yield (*path, key)
        yield from paths(part, (*path, key))


# Configs


@pytest.mark.parametrize("value", [GONE, None, 5, "x", [10**6, 10**6], {}], ids=["gone", "null", "5", "x", "large", "object"])
def test_whatever_is_changed_in_a_config_it_is_refused_or_works(value, bundle):
    config, obs = read(bundle), np.zeros(4, np.float32)
    unread = {"versions", "normalisation"}
    for path in [path for path in paths(config) if not unread & set(path)]:
        write(bundle, changed(config, path, value))
        try:
            act = deploy.load(bundle)
        except Rl4JaxError:
            continue
        assert act(obs, None, np.ones(4, bool))[0] in range(4), path
        assert act.outputs(obs[None], None, np.ones((1, 4), bool))["action"].shape == (1,), path


def test_a_config_is_json(bundle):
    write(bundle, changed(read(bundle), ["observation_space", "low"], float("nan")))
    with pytest.raises(deploy.BundleError, match=r"config.json cannot be read: it has NaN in it, which is no JSON"):
        deploy.load(bundle)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["env"], 5, "env = 5 must be a text without control characters, or null"),
        (["algorithm"], "\x1b[2J", "algorithm = '\\x1b[2J' must be a text without control characters"),
        (["observation_space", "low"], 10**400, "must be a number, null for none, or lists"),
        (["observation_space", "low"], "x", "observation_space.low = 'x' must be a number, null for none, or lists"),
        (["observation_space", "low"], [0.0, 0.0], "must be a number, null for none, or lists of them, of own_shape"),
        (["files"], {"policy.onnx": 1}, "files = {'policy.onnx': 1} must be checksums by file"),
        (["inputs"], {}, "inputs = {} must be a list"),
        (["inputs", 0, "shape"], [-1], "inputs[0].shape = [-1] must be a list of sizes"),
        (["outputs", 1, "shape"], [10**5, 10**5], "must be a list of sizes, for at most 100000000 numbers"),
        (["outputs", 0, "dtype"], "bfloat16", "outputs[0].dtype = 'bfloat16' must be one of bool, int8"),
        (["noise", 0, "kind"], "cauchy", "noise[0].kind = 'cauchy' must be one of gumbel, normal, uniform"),
        (["carry", 0, "initial"], [0.0, 1.0], "carry[0].initial = [0.0, 1.0] must be one number for all or for each"),
        (["carry", 0, "initial"], 1e300, "carry[0].initial = 1e+300 must be"),
        (["mask", "size"], True, "mask.size = True must be a positive integer"),
        (["mask", "heads"], [[0, 5]], "mask.heads = [[0, 5]] must be a list of where each choice begins and ends, within size"),
        (["mask", "in_obs"], True, "mask.in_obs = True must be false: observations are no Dict"),
        (["observation_space", "type"], "Graph", "observation_space.type = 'Graph' must be one of Box, Discrete"),
        (["observation_space", "own_shape"], [2, 2], "own_shape of 'obs' = [2, 2] must be [4], as its shape"),
        (["action_space", "n"], 0, "action_space.n = 0 must be a positive integer"),
        (["action_space", "start"], "x", "action_space.start = 'x' must be integers"),
        (["action_space", "port"], "value", "must be such that ('value', [], 'int32') is among them"),
        (["noise"], [], "must be those of spaces, mask, carry and noise"),
        (["observation_space"], {"type": "Dict", "spaces": {}}, "must be of at least one part"),
    ],
)  # fmt: skip
def test_a_config_is_checked_before_it_is_used(path, value, said, bundle):
    write(bundle, changed(read(bundle), path, value))
    with pytest.raises(deploy.BundleError, match=re.escape(said)) as refused:
        deploy.load(bundle)
    assert str(refused.value).startswith("config.json: ")
    assert str(refused.value).endswith(". Export the policy again.")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": ' * 100_000, "\ud800"])
def test_a_config_that_nobody_can_read(text, bundle):
    (bundle / "config.json").write_text(text, errors="surrogatepass")
    with pytest.raises(deploy.BundleError, match="cannot be read"):
        deploy.load(bundle)


def test_spaces_in_spaces_have_an_end(bundle):
    config = read(bundle)
    for _ in range(30):
        config["observation_space"] = {"type": "Tuple", "spaces": [config["observation_space"]]}
    write(bundle, config)
    with pytest.raises(deploy.BundleError, match="in at most 20 others"):
        deploy.load(bundle)


@pytest.mark.parametrize("value", [GONE, None, 5, -1, "x", [3], [[1, 2], [3]], {}, "Tuple", "uint8"])
def test_whatever_is_changed_in_spaces_with_parts_it_is_refused_or_works(value):
    pair, bits = CHOICES | {"port": "obs.pair"}, BITS | {"port": "obs.bits"}
    obs = {"type": "Dict", "spaces": {"pair": pair, "more": {"type": "Tuple", "spaces": [bits]}}}
    action = {
        "type": "Tuple",
        "spaces": [BITS | {"port": "action.0", "shape": [6], "own_shape": [2, 3], "dtype": "int32"}, CHOICE | {"port": "action.1"}],
    }
    ports = [{"name": leaf["port"], "shape": leaf["shape"], "dtype": leaf["dtype"]} for leaf in (pair, bits, *action["spaces"])]
    mask = {"size": 3, "heads": [[0, 1], [1, 3]], "in_obs": True}
    inputs = [*ports[:2], {"name": "mask", "shape": [3], "dtype": "bool"}]
    config = {
        "files": {},
        "inputs": inputs,
        "outputs": ports[2:],
        "observation_space": obs,
        "action_space": action,
        "carry": [],
        "noise": [],
        "mask": mask,
    }
    check_config(config)

    def engine(inputs, names):
        return {"action.0": np.zeros((1, 6), np.int32), "action.1": np.ones(1, np.int32)}

    bits, choice = Policy(config, engine)({"pair": [1, -1], "more": ([0, 1],), "action_mask": [1, 0, 1]})[0]
    assert (bits.shape, choice) == ((2, 3), 6)
    for path in [path for path in paths(config) if len(path) > 1]:
        other = changed(config, path, value)
        try:
            check_config(other)
        except deploy.BundleError:
            continue
        policy = Policy(other, engine)
        question = example(policy)
        assert isinstance(policy(question["obs"], mask=question.get("mask"))[0], tuple), path


def test_every_kind_of_noise_can_be_drawn():
    assert set(DRAW) == set(NOISE)


# Programs


@pytest.mark.parametrize("runtime", deploy.RUNTIMES)
def test_a_program_that_is_not_the_one_described_is_found_when_it_is_loaded(runtime, bundle):
    config = read(bundle)
    i = [port["name"] for port in config["outputs"]].index("value")
    write(bundle, changed(config, ["outputs", i, "shape"], [1]))
    with pytest.raises(deploy.BundleError, match=re.escape("answers 'value' as float32 (1,); config.json says float32 (1, 1)")):
        deploy.load(bundle, runtime)
    i = [port["name"] for port in config["inputs"]].index("obs")
    wider = changed(changed(config, ["inputs", i, "shape"], [5]), ["observation_space", "shape"], [5])
    write(bundle, changed(wider, ["observation_space", "own_shape"], [5]))
    with pytest.raises(deploy.BundleError, match="its program failed"):
        deploy.load(bundle, runtime)


def test_names_in_a_bundle_move_no_cursor(bundle):
    """Names of ports and keys of dicts may be anything, but a terminal obeys some signs."""
    evil = "\x1b[2J"
    config = read(bundle)
    value = [port["name"] for port in config["outputs"]].index("value")
    write(bundle, changed(config, ["outputs", value, "name"], evil))
    with pytest.raises(deploy.BundleError) as refused:
        deploy.load(bundle)
    space = {"type": "Dict", "spaces": {evil: CHOICE}}
    port = BOX | {"port": evil, "own_shape": [3]}
    with pytest.raises(deploy.BundleError) as unequal:
        check_config(changed(config, ["observation_space"], port))
    for said in (str(refused.value), in_words(space), str(unequal.value)):
        assert "\x1b" not in said
    assert in_words(space) == "Dict('\\x1b[2J': Discrete(4, from 5))"


def test_a_program_that_fails_later_says_why(original):
    def engine(inputs, names):
        raise MemoryError("no room.")

    policy = Policy(read(original), engine)
    with pytest.raises(deploy.BundleError, match=r"Policy\(None for GridWorld\): its program failed: no room. Export the policy again"):
        policy(np.zeros(4, np.float32), mask=[1, 1, 1, 1])


# Observations, masks and carries


def leaf(kind, shape=(), dtype="int32", **more):
    return {"type": kind, "port": "obs", "shape": [*shape], "dtype": dtype, "own_shape": [*shape], "own_dtype": dtype} | more


class Unwilling:
    """A tensor that wants a gradient, or is on another device."""

    def __init__(self, error):
        self.error = error

    def __array__(self, dtype=None, copy=None):
        raise self.error


CHOICE, CHOICES = leaf("Discrete", n=4, start=5), leaf("MultiDiscrete", [2], nvec=[2, 3], start=[0, -1])
BITS, BYTES, BOX = leaf("MultiBinary", [2], "int8"), leaf("Box", [2], "uint8"), leaf("Box", [2], "float32")
MASK = {"shape": [2], "dtype": "bool"}


@pytest.mark.parametrize(
    ("spec", "given", "said"),
    [
        (CHOICE, 4, "obs = 4 must be from 5 to 8"),
        (CHOICE, np.array([5, 9]), "obs[1] = 9 must be from 5 to 8"),
        (CHOICE, 2**32 + 5, "obs = 4294967301 must be from 5 to 8"),
        (CHOICES, [1, 2], "obs[1] = 2 must be from -1 to 1"),
        (CHOICES, [[1, 1], [2, 0]], "obs[1, 0] = 2 must be from 0 to 1"),
        (leaf("Discrete", n=4), np.array([1, -1], np.int32), "obs[1] = -1 must be from 0 to 3"),
        (BITS, np.array([0, 7], np.int8), "obs[1] = 7 must be from 0 to 1"),
        (BYTES, [0, 256], "obs[1] = 256 must be from 0 to 255"),
        (BYTES, [-1, 0], "obs[0] = -1 must be from 0 to 255"),
        (MASK, [1, 2], "obs[1] = 2 must be from 0 to 1"),
        (MASK, [0.5, 1.0], "obs is of float64; it must be of bool"),
        (BOX, [0.0, np.nan], "not finite, or too large for float32: obs[1] = nan"),
        (BOX, [1e39, 0.0], "obs[0] = 1e+39"),
        (BOX, [10**400, 0], "obs is no array: int too large"),
        (BOX, [10**20, None], "obs is of object; it must be of float32"),
        (BOX, np.zeros((0, 2), np.float32), "obs is an empty batch"),
        (BOX, np.zeros((0, 2)), "obs is an empty batch"),
        (BOX, Unwilling(RuntimeError("Can't call numpy() on Tensor that requires grad.")), "requires grad. Give numbers"),
        (BOX, Unwilling(TypeError("can't convert cuda:0 device type tensor")), "obs is no array: can't convert cuda:0"),
    ],
)
def test_numbers_that_the_program_does_not_know_are_refused(spec, given, said):
    with pytest.raises(ShapeError, match=re.escape(said)):
        reader(spec, "obs")(given)


@pytest.mark.parametrize(
    ("spec", "given", "wanted"),
    [
        (CHOICE, 8, 3),
        (CHOICE, np.array([5, 8], np.uint64), [0, 3]),
        (CHOICES, [1, -1], [1, 0]),
        (BITS, [[0, 1], [1, 1]], [[0, 1], [1, 1]]),
        (BYTES, np.array([0, 255]), [0, 255]),
        (MASK, [1, 0], [True, False]),
        (BOX, [10**20, 0], [1e20, 0.0]),
        (BOX, [10**20, 0.5], [1e20, 0.5]),
    ],
)
def test_numbers_that_it_knows_get_its_dtype(spec, given, wanted):
    got = reader(spec, "obs")(given)
    assert got.dtype == spec["dtype"]
    np.testing.assert_array_equal(got, np.asarray(wanted, spec["dtype"]))


@pytest.mark.parametrize(
    ("low", "high"), [(-0.1, 0.1), ([-0.1, -0.2], [0.1, 0.2]), (None, [0.1, None]), ([None, -0.2], None), (None, None)]
)
def test_numbers_of_64_bits_stay_inside_their_box(low, high):
    """0.1 is more as a number of 32 bits, and the program has those."""
    below, above = (np.array(np.broadcast_to(x, 2), object) for x in (low, high))
    below, above = np.where(below == None, -np.inf, below).astype(float), np.where(above == None, np.inf, above).astype(float)  # noqa: E711
    spec = BOX | {"own_dtype": "float64", "low": low, "high": high}
    for sign in (-1, 1):
        action = decoder(spec)({"obs": np.clip(sign * np.full((3, 2), 1e9), below, above).astype(np.float32)})
        assert action.dtype == np.float64
        assert all(S.Box(below, above, dtype=np.float64).contains(x) for x in action)
    assert np.isnan(decoder(spec)({"obs": np.full((1, 2), np.nan, np.float32)})).all(), "what is no number is not hidden"


def test_a_dict_may_have_keys_of_any_kind():
    encode = encoder({"type": "Dict", "spaces": {"a": BOX, "b": BITS | {"port": "bits"}}})
    assert set(encode({"a": [0.0, 1.0], "b": [0, 1], 2: 3})[0]) == {"obs", "bits"}
    with pytest.raises(ShapeError, match=re.escape("obs is a dict of ['2', 'a']; it must be a dict of ['a', 'b']")):
        encode({"a": [0.0, 1.0], 2: 3})


@pytest.mark.parametrize("runtime", deploy.RUNTIMES)
def test_all_runtimes_refuse_the_same(runtime, original):
    act, obs, mask = deploy.load(original, runtime), np.zeros((2, 4), np.float32), np.ones((2, 4), bool)
    _, carry = act(obs, None, mask)
    name = min(carry)
    with pytest.raises(ShapeError, match="obs is an empty batch"):
        act(obs[:0], None, mask[:0])
    with pytest.raises(ShapeError, match=re.escape("mask[0, 0] = 2 must be from 0 to 1")):
        act(obs, None, 2 * mask)
    with pytest.raises(ShapeError, match=re.escape(f"carry[{name!r}][0, 0] = 1e+300")):
        act(obs, carry | {name: carry[name] * 0.0 + np.float64(1e300)}, mask)
    with pytest.raises(ShapeError, match=re.escape("has shape (1, 8); it must be (2, 8), as obs has it")):
        act(obs, carry | {name: carry[name][:1]}, mask)


def test_carries_of_integers_are_held_or_refused(original):
    count = {"name": "carry.count", "shape": [], "dtype": "int8", "initial": 3}
    config = read(original) | {"carry": [count], "noise": [], "mask": None}

    def engine(inputs, names):
        return {"action": np.zeros(1, np.int32), "next_carry.count": inputs["carry.count"] + np.int8(1)}

    act = Policy(config, engine)
    _, carry = act(np.zeros(4))
    assert act(np.zeros(4), {"carry.count": 100})[1] == {"carry.count": 101}
    assert carry == {"carry.count": 4}
    with pytest.raises(ShapeError, match=re.escape("carry['carry.count'] = 300 must be from -128 to 127")):
        act(np.zeros(4), {"carry.count": 300})


# Arguments


def test_arguments_of_another_kind_are_named(original):
    """In a process without our type checks."""
    program = """
import json, sys
from rl4jax import deploy
from rl4jax.core.errors import ConfigError
folder = sys.argv[1]
policy = deploy.load(folder)
wrong = [dict(folder=None), dict(folder=5), dict(runtime=None), dict(runtime=["numpy"]), dict(seed="x"), dict(seed=-1), dict(seed=1.5), dict(seed=True)]
served = [dict(policy=folder), dict(host=None), dict(host="a" * 300), dict(host="a\\0"), dict(port="8000"), dict(port=True), dict(token=5), dict(max_body="x"),
          dict(max_body=0.5), dict(max_batch=True), dict(max_clients=0.5), dict(request_seconds=float("inf")), dict(request_seconds=1e12),
          dict(request_seconds=float("nan")), dict(request_seconds="1"), dict(request_seconds=0)]
for call, defaults, cases in ((deploy.load, {"folder": folder}, wrong), (deploy.Server, {"policy": policy, "port": 0}, served)):
    for case in cases:
        try:
            call(**defaults | case)
            print("taken", case)
        except ConfigError as error:
            if not set(case) <= set(str(error).replace("=", " ").split()):
                print("not named", case, error)
"""
    done = fresh_process.run(program, str(original))
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


# The command


def play(*args):
    return run.main([str(arg) for arg in args])


def test_a_bundle_cannot_have_a_module_imported(bundle, tmp_path, monkeypatch, capsys):
    (tmp_path / "stranger.py").write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()")
    monkeypatch.syspath_prepend(tmp_path)
    said = {
        "gym:stranger:Maze-v0": "names a module to import. If you trust it, say so: --env gym:stranger:Maze-v0.",
        " gym:stranger:Maze-v0": "names a module to import. If you trust it, say so: --env gym:stranger:Maze-v0.",
        "gym:stranger:Maze-v0; true": "names a module to import. If you trust it, say so: --env 'gym:stranger:Maze-v0; true'.",
        "stranger:Maze": "is neither built in nor Gymnasium's. Play it in a loop of your own, with deploy.load(folder), or give --env.",
    }
    for name, advice in said.items():
        write(bundle, read(bundle) | {"env": name})
        assert play(bundle) == 2
        assert f"env = {name!r} {advice}" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()
    assert play(bundle, "--env", "gym:stranger:Maze-v0") == 2, "there is no such environment"
    assert "--env gym:stranger:Maze-v0 cannot be made" in capsys.readouterr().err
    assert (tmp_path / "ran").exists(), "but who types it, wants it"


@pytest.mark.parametrize("name", ["config.json", "policy.onnx"])
def test_files_of_a_size_that_none_has(bundle, name):
    os.truncate(bundle / name, 10**12)  # takes no room
    with pytest.raises(deploy.BundleError, match=r"cannot be read: it has 1,000,000,000,000 bytes"):
        deploy.load(bundle)


def test_answers_of_another_number_than_questions(original):
    policy = deploy.load(original)
    few = Policy(policy.config, lambda inputs, names: {name: x[:1] for name, x in policy.engine(inputs, names).items()})
    obs, mask = np.zeros((3, 4)), np.ones((3, 4), bool)
    assert len(policy(obs, None, mask)[0]) == 3
    with pytest.raises(deploy.BundleError, match=r"its program answers .*action.* to 3 observations"):
        few(obs, None, mask)


def test_an_action_that_is_none(original):
    policy = deploy.load(original)
    wild = Policy(
        policy.config, lambda inputs, names: {name: x + (name == "action") * 777 for name, x in policy.engine(inputs, names).items()}
    )
    with pytest.raises(deploy.BundleError, match=re.escape("is none of Discrete(4)")):
        run.play(wild, run.make_env("GridWorld"), 1)


def test_environments_are_closed(original, monkeypatch):
    made = run.make_env("GridWorld")
    closed = []
    monkeypatch.setattr(made, "close", lambda: closed.append(True))
    monkeypatch.setattr(run, "make_env", lambda name: made)
    assert play(original, "--episodes", 1) == 0
    assert closed == [True]


def test_environments_that_the_command_cannot_make(original, capsys):
    assert play(original, "--env", "my_game:Maze") == 2
    assert "--env my_game:Maze is of your own, and not of Gymnasium. Play it in a loop of your own" in capsys.readouterr().err
    assert play(original, "--env", "gym:my_game:Maze-v0") == 2
    said = capsys.readouterr().err
    assert "--env gym:my_game:Maze-v0 cannot be made: No module named 'my_game'" in said
    assert "None" not in said


def test_mistakes_of_the_command(original, capsys):
    assert play(original, "--seed", -5) == 2
    assert "--seed = -5 must be an integer of at least 0" in capsys.readouterr().err
    assert play(original, "--env", "gym:CartPole-v1", "--episodes", 1) == 2
    assert "env has actions Discrete(2), but the policy's are Discrete(" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spec", "same", "others"),
    [
        (leaf("Discrete", n=4, start=5), S.Discrete(4, start=5), [S.Discrete(4), S.Discrete(3, start=5), S.Box(0, 1), S.MultiDiscrete([4])]),
        (leaf("Discrete", n=4), S.Discrete(4), [S.Discrete(4, start=5), S.Discrete(5)]),
        (leaf("MultiDiscrete", [2], nvec=[2, 3]), S.MultiDiscrete([2, 3]), [S.MultiDiscrete([3, 2]), S.MultiDiscrete([2, 3, 2]), S.MultiBinary(2)]),
        (leaf("Box", [2], "float32"), S.Box(-2, 2, (2,)), [S.Box(-2, 2, (3,)), S.Box(-2, 2, ())]),
        (leaf("MultiBinary", [2, 3], "int8"), S.MultiBinary((2, 3)), [S.MultiBinary(6)]),
        ({"type": "Tuple", "spaces": [leaf("Discrete", n=2)]}, S.Tuple([S.Discrete(2)]), [S.Tuple([]), S.Tuple([S.Discrete(3)]), S.Discrete(2)]),
        ({"type": "Dict", "spaces": {"a": leaf("Discrete", n=2)}}, S.Dict({"a": S.Discrete(2)}), [S.Dict({"b": S.Discrete(2)}), S.Dict({"a": S.Discrete(3)})]),
    ],
)  # fmt: skip
def test_only_the_actions_it_was_trained_with_are_played(spec, same, others):
    assert run.same_actions(spec, same)
    for other in others:
        assert not run.same_actions(spec, other), other


def test_playing_elsewhere_is_refused(original):
    with gymnasium.make("CartPole-v1") as env, pytest.raises(EnvError, match="Give the environment that it was trained in"):
        run.play(deploy.load(original), env, 1)
    with pytest.raises(ConfigError, match="seed = -5"):
        deploy.load(original, seed=-5)
