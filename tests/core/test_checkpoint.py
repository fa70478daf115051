"""Checkpoints: what goes in comes out, bit by bit, and no other file does any harm."""

import enum
import hashlib
import json
import os
import pickle
import struct
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import safetensors.numpy

from rl4jax.core import atomic
from rl4jax.core.checkpoint import load, read_metadata, save
from rl4jax.core.errors import CheckpointError, ConfigError


class Pair(NamedTuple):
    left: Any
    right: Any


class Colour(enum.IntEnum):
    RED = 3
    BLUE = 4


def bits(leaf):
    """A leaf as type, dtype, shape and bytes: equal only if nothing at all differs."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return str(leaf.dtype), leaf.shape, np.asarray(jax.random.key_data(leaf)).tobytes()
    array = np.asarray(leaf)
    return type(leaf), array.dtype.name, array.shape, array.tobytes()


def same(a, b):
    return jax.tree.structure(a) == jax.tree.structure(b) and list(map(bits, jax.tree.leaves(a))) == list(map(bits, jax.tree.leaves(b)))


def blank(leaf):
    """A leaf of the same kind with another value."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.zeros_like(jax.random.key_data(leaf)), impl=jax.random.key_impl(leaf))
    if isinstance(leaf, Colour):
        return Colour.BLUE
    if isinstance(leaf, jax.Array):
        return jnp.zeros_like(leaf)
    return np.zeros_like(leaf) if isinstance(leaf, np.ndarray) else type(leaf)(0)


def abstract(tree):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree)


def module_and_optimizer():
    model = eqx.filter(eqx.nn.MLP(3, 2, 8, 2, key=jax.random.key(0)), eqx.is_array)
    return model, optax.adam(1e-3).init(model)


ODD_FLOATS = np.array([0x7FC00001, 0x7F800001, 0xFFC12345, 0x80000000, 0x7F800000, 1], np.uint32).view(
    np.float32
)  # NaNs, -0.0, inf, denormal

TREES = {
    "odd floats": lambda: {"jax": jnp.asarray(ODD_FLOATS), "numpy": ODD_FLOATS, "double": np.array([np.nan, -0.0, 5e-324])},
    "dtypes": lambda: [
        jnp.ones((2, 3), dtype)
        for dtype in (bool, "i1", "u1", "i2", "u2", "i4", "u4", "f2", "bfloat16", "f4", "complex64", "float8_e4m3fn", "float8_e5m2")
    ],
    "64 bits": lambda: [np.array([2**63], np.uint64), np.float64(1 / 3), np.int64(-(2**63)), np.array(0.1)],
    "shapes": lambda: (jnp.zeros(()), jnp.zeros((0, 3)), np.zeros((2, 0), np.int8), jnp.ones((1, 1, 1))),
    "layouts": lambda: (np.arange(12.0).reshape(3, 4).T, np.arange(12)[::-2], np.broadcast_to(np.float32(1), (2, 2))),
    "keys": lambda: {
        "one": jax.random.key(1), "many": jax.random.split(jax.random.key(2), (2, 3)),
        "rbg": jax.random.key(3, impl="rbg"), "old": jax.random.PRNGKey(4),
    },
    "python numbers": lambda: {"int": -(2**63), "float": -0.0, "nan": float("nan"), "true": True, "false": False, "colour": Colour.RED},
    "structures": lambda: Pair([None, {"a": (jnp.ones(2), ()), "ünï 日本": jnp.zeros(1)}], Pair(None, {0: jnp.ones(1), 10: jnp.zeros(1)})),
    "a leaf alone": lambda: jnp.arange(3),
    "nothing": dict,
    "module and optimizer": module_and_optimizer,
}  # fmt: skip


@pytest.mark.parametrize("name", TREES)
def test_what_is_saved_is_loaded_bit_by_bit(name, tmp_path):
    tree = TREES[name]()
    save(tmp_path / "a.safetensors", tree)
    assert same(load(tmp_path / "a.safetensors", jax.tree.map(blank, tree)), tree)


@pytest.mark.parametrize("name", ["odd floats", "dtypes", "shapes", "keys", "module and optimizer"])
def test_like_may_be_shapes_and_dtypes_only(name, tmp_path):
    tree = jax.tree.map(lambda x: x if isinstance(x, jax.Array) else None, TREES[name]())
    save(tmp_path / "a.safetensors", tree)
    assert same(load(tmp_path / "a.safetensors", abstract(tree)), tree)


def test_a_loaded_key_draws_the_same_numbers(tmp_path, getkey):
    key = getkey()
    save(tmp_path / "a.safetensors", key)
    assert (jax.random.normal(load(tmp_path / "a.safetensors", getkey()), (3,)) == jax.random.normal(key, (3,))).all()


def test_arrays_that_were_loaded_can_be_changed_and_donated(tmp_path):
    save(tmp_path / "a.safetensors", {"numpy": np.arange(3), "jax": jnp.arange(3)})
    tree = load(tmp_path / "a.safetensors", {"numpy": np.arange(3), "jax": jnp.arange(3)})
    tree["numpy"][0] = 7
    assert jax.jit(lambda x: x + 1, donate_argnums=0)(tree["jax"]).tolist() == [1, 2, 3]


def test_big_endian_arrays_are_stored_by_value(tmp_path):
    save(tmp_path / "a.safetensors", np.arange(3, dtype=">i4"))
    assert load(tmp_path / "a.safetensors", np.zeros(3, ">i4")).tolist() == [0, 1, 2]
    assert safetensors.numpy.load_file(tmp_path / "a.safetensors")["value"].tolist() == [0, 1, 2]


def test_functions_and_strings_are_structure_and_come_from_like(tmp_path, getkey):
    tanh = eqx.nn.MLP(3, 2, 8, 1, activation=jnp.tanh, key=getkey())
    relu = eqx.nn.MLP(3, 2, 8, 1, activation=jax.nn.relu, key=getkey())
    save(tmp_path / "a.safetensors", {"model": tanh, "note": "saved"})
    tree = load(tmp_path / "a.safetensors", {"model": relu, "note": "like"})
    assert same(eqx.filter(tree["model"], eqx.is_array), eqx.filter(tanh, eqx.is_array))
    assert tree["model"].activation is relu.activation
    assert tree["note"] == "like"


def test_names_are_readable_with_any_safetensors_reader(tmp_path, getkey):
    model = eqx.nn.MLP(3, 2, 8, 1, key=getkey())
    save(tmp_path / "a.safetensors", {"params": model, "step": 3})
    tensors = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    assert sorted(tensors) == ["params.layers.0.bias", "params.layers.0.weight", "params.layers.1.bias", "params.layers.1.weight", "step"]
    assert (tensors["params.layers.1.weight"] == model.layers[1].weight).all()


def test_anyones_safetensors_file_loads_if_it_fits(tmp_path, getkey):
    layer = eqx.nn.Linear(3, 2, key=getkey())
    tensors = {"weight": np.ones((2, 3), np.float32), "bias": np.zeros(2, np.float32)}
    for metadata in (None, {"format": "np"}):
        safetensors.numpy.save_file(tensors, tmp_path / "theirs.safetensors", metadata)
        assert (load(tmp_path / "theirs.safetensors", layer).weight == 1).all()
        assert read_metadata(tmp_path / "theirs.safetensors") == (metadata or {})
    with pytest.raises(CheckpointError, match="weight"):
        load(tmp_path / "theirs.safetensors", eqx.nn.Linear(4, 2, key=getkey()))


@pytest.mark.parametrize(
    "metadata", [None, {}, {"a": [1, None, True, "ü\ud800"], "b": {"checksum": "0" * 64}, "rl4jax.checkpoint": 1e-300}]
)
def test_metadata_come_back(metadata, tmp_path):
    save(tmp_path / "a.safetensors", jnp.ones(2), metadata=metadata)
    assert read_metadata(tmp_path / "a.safetensors") == (metadata or {})


def test_metadata_may_hold_metrics_but_not_objects(tmp_path):
    save(tmp_path / "a.safetensors", jnp.ones(2), metadata={"score": jnp.asarray(2.5), "loss": np.float32(1), "list": np.arange(2)})
    assert read_metadata(tmp_path / "a.safetensors") == {"score": 2.5, "loss": 1.0, "list": [0, 1]}
    with pytest.raises(TypeError, match=r"metadata cannot be written as JSON: it holds <object"):
        save(tmp_path / "b.safetensors", jnp.ones(2), metadata={"bad": object()})
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_the_same_tree_makes_the_same_file(tmp_path):
    for name in "ab":
        save(tmp_path / f"{name}.safetensors", TREES["keys"](), metadata={"x": 1, "y": 2})
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


SMALL = {"w": np.arange(3, dtype=np.float32), "n": 7}


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.safetensors"
    save(path, SMALL, metadata={"step": 1})
    return path


@pytest.mark.parametrize("flip", [1 << bit for bit in range(8)])
def test_every_flipped_bit_is_found(flip, small):
    whole = small.read_bytes()
    for i in range(len(whole)):
        small.write_bytes(whole[:i] + bytes([whole[i] ^ flip]) + whole[i + 1 :])
        with pytest.raises(CheckpointError, match=r"damaged|not a safetensors|cut short"):
            load(small, SMALL)


def test_every_truncation_and_addition_is_found(small):
    whole = small.read_bytes()
    for damaged in [*(whole[:i] for i in range(len(whole))), whole + b"\0", whole + whole]:
        small.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            load(small, SMALL)
        with pytest.raises(CheckpointError):
            read_metadata(small)


def as_file(header, data=b""):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + data


def forged(about, tensors=None):
    """A file whose checksum is right and whose contents are not ours."""
    tensors = {"w": np.zeros(2, np.float32)} if tensors is None else tensors
    raw = safetensors.numpy.save(tensors, {"rl4jax.checkpoint": "0" * 64 + about})
    start = raw.index(b"0" * 64)
    return raw[:start] + hashlib.sha256(raw).hexdigest().encode() + raw[start + 64 :]


FOREIGN = {
    "empty": b"",
    "png": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "pickle": pickle.dumps(SMALL),
    "json": b'{"w": [1, 2, 3]}',
    "zeros": bytes(1000),
    "random": np.random.default_rng(0).bytes(1000),
    "huge header": struct.pack("<Q", 2**63) + b"{}",
    "header of a gigabyte": struct.pack("<Q", 2**30) + b"{}",
    "no object": as_file(b"{]"),
    "nested": as_file(b'{"a":' + b"[" * 100_000),
    "no tensors": as_file({}),
    "odd dtype": as_file({"w": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}}, b"\0"),
    "wrong length": as_file({"w": {"dtype": "F32", "shape": [2**60], "data_offsets": [0, 4]}}, bytes(4)),
    "null metadata": as_file({"__metadata__": None}),
    "forged, no JSON": forged("{"),
    "forged, nested": forged("[" * 100_000),
    "forged, a list": forged("[1]"),
    "forged, newer": forged('{"version": 2}'),
    "forged, metadata": forged('{"version": 1, "metadata": null}'),
    "forged, keys": forged('{"version": 1, "keys": {"w": "threefry2x32"}}'),
    "forged, no such key": forged('{"version": 1, "keys": {"v": "threefry2x32"}}'),
    "forged, odd keys": forged('{"version": 1, "keys": [1]}'),
    "forged, unknown keys": forged('{"version": 1, "keys": {"w": "dice"}}', {"w": np.zeros(2, np.uint32)}),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_of_another_kind_is_a_checkpoint_error(name, tmp_path):
    path = tmp_path / "foreign.safetensors"
    path.write_bytes(FOREIGN[name])
    with pytest.raises(CheckpointError, match=r"foreign\.safetensors"):
        load(path, SMALL)


def test_a_newer_format_says_so(tmp_path):
    (tmp_path / "new.safetensors").write_bytes(FOREIGN["forged, newer"])
    for read in (read_metadata, lambda path: load(path, SMALL)):
        with pytest.raises(CheckpointError, match=r"format version 2; this rl4jax reads 1\. Update rl4jax"):
            read(tmp_path / "new.safetensors")


def test_folders_pipes_and_missing_files_are_checkpoint_errors(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, reason in ((tmp_path, "is not a file"), (tmp_path / "pipe", "is not a file"), (tmp_path / "none", "does not exist")):
        with pytest.raises(CheckpointError, match=reason):
            load(path, SMALL)


class Bomb:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (self.target,)


def test_a_pickle_bomb_does_not_go_off(tmp_path):
    bomb = pickle.dumps(Bomb(str(tmp_path / "boom")))
    for raw in (bomb, as_file(b'{"__metadata__":{"a":"b"}}', bomb), b"\0" * 8 + b"{" + bomb):
        (tmp_path / "bomb.safetensors").write_bytes(raw)
        with pytest.raises(CheckpointError):
            load(tmp_path / "bomb.safetensors", SMALL)
    assert not (tmp_path / "boom").exists()


def test_a_mismatch_lists_every_name_with_both_shapes(tmp_path, getkey):
    path = tmp_path / "a.safetensors"
    save(
        path, {"policy": {"weight": jnp.ones((3, 2))}, "old": jnp.ones(1), "key": getkey(), "bias": jnp.ones(2), "n": 1, "ok": jnp.ones(1)}
    )
    like = {"actor_policy": {"weight": jnp.ones((3, 2))}, "new": jnp.ones(5), "key": jax.random.PRNGKey(0), "bias": jnp.ones(3), "n": 1.0}
    with pytest.raises(CheckpointError) as caught:
        load(path, {**like, "ok": jnp.ones(1)})
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{path} does not fit `like`. Differences: 7."
    assert sorted(lines[1:-1]) == [
        "  differs: bias is float32[2] in the file and float32[3] in `like`",
        "  differs: key is key<fry>[] in the file and uint32[2] in `like`",
        "  differs: n is int64[] in the file and float64[] in `like`",
        "  missing in the file: actor_policy.weight float32[3,2] (renamed? the file has policy.weight)",
        "  missing in the file: new float32[5]",
        "  unexpected in the file: old float32[1]",
        "  unexpected in the file: policy.weight float32[3,2]",
    ]


def test_a_long_mismatch_is_cut(tmp_path):
    save(tmp_path / "a.safetensors", {f"a{i}": jnp.ones(2) for i in range(50)})
    with pytest.raises(CheckpointError, match=r"Differences: 100(.*\n){21}  and 80 more\n.*Make `like`"):
        load(tmp_path / "a.safetensors", {f"b{i}": jnp.ones(2) for i in range(50)})


def test_64_bits_are_never_narrowed_silently(tmp_path):
    save(tmp_path / "a.safetensors", np.array([1e300]))
    for like in (jnp.ones(1), jax.ShapeDtypeStruct((1,), np.float64)):
        with pytest.raises(CheckpointError, match=r"value is float64\[1\] in the file and float32\[1\] in `like`"):
            load(tmp_path / "a.safetensors", like)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": {"b": np.array(["x"])}}, r"a\.b has dtype <U1"),
        ({"a": np.array([None])}, "a has dtype object"),
        ({"a": 1j}, "a has dtype complex128"),
        ({"a": jnp.zeros(2, jnp.int4)}, r"a has dtype int4.*Convert it"),
        ({"a": 2**63}, "a = 9223372036854775808 does not fit into 64 bits"),
        ({"a.b": 1, "a": {"b": 2}}, r"2 leaves called 'a\.b'.*Rename"),
        ({"__metadata__": 1}, "__metadata__"),
        ({"\ud800": 1}, "Rename"),
        ({"a": jax.ShapeDtypeStruct((), np.float32)}, "a is a ShapeDtypeStruct, which has no value"),
    ],
)
def test_what_cannot_be_stored_is_named(tree, message, tmp_path):
    with pytest.raises(CheckpointError, match=message):
        save(tmp_path / "a.safetensors", tree)
    assert os.listdir(tmp_path) == []


def test_saving_inside_jit_says_what_to_do(tmp_path):
    with pytest.raises(CheckpointError, match=r"x is a .*Tracer.*Save outside of jit"):
        jax.jit(lambda x: save(tmp_path / "a.safetensors", {"x": x}))(1.0)


def test_the_path_must_end_in_safetensors(tmp_path):
    with pytest.raises(ConfigError, match=r"save: path = .*model\.pkl.* must be a path ending in \.safetensors"):
        save(tmp_path / "model.pkl", SMALL)


def test_folders_are_made_and_nothing_else_is_left(tmp_path):
    save(str(tmp_path / "x" / "y" / "a.safetensors"), SMALL)
    assert os.listdir(tmp_path / "x" / "y") == ["a.safetensors"]


def disk_full(handle):
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_the_old_file_and_no_litter(small, monkeypatch):
    monkeypatch.setattr(atomic.os, "fsync", disk_full)
    with pytest.raises(CheckpointError, match=r"small\.safetensors cannot be written: .*No space left"):
        save(small, {"w": np.zeros(9)})
    assert os.listdir(small.parent) == ["small.safetensors"]
    assert same(load(small, SMALL), SMALL)


def test_a_place_that_cannot_be_written_is_a_checkpoint_error(small):
    (small.parent / "folder.safetensors").mkdir()
    for path in (
        small / "a.safetensors",
        small.parent / "folder.safetensors",
        small.parent / f"{'long' * 100}.safetensors",
        small.parent / "\0.safetensors",
    ):
        with pytest.raises(CheckpointError, match="cannot be written"):
            save(path, SMALL)
    assert sorted(os.listdir(small.parent)) == ["folder.safetensors", "small.safetensors"]


def test_ctrl_c_while_writing_leaves_no_litter(small, monkeypatch):
    def interrupt(handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(small, {"w": np.zeros(9)})
    assert os.listdir(small.parent) == ["small.safetensors"]
