"""Whether `config.json` of a bundle says all that is read of it, and says it as it must be. NumPy only."""

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .codec import leaf_specs, reader
from .errors import BundleError

Config = dict[str, Any]
NOISE = ("gumbel", "normal", "uniform")
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
)  # fmt: skip
SPACES = ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict", "Tuple")
MOST = 10**8  # numbers of an array
DEEPEST = 20  # spaces in spaces


def check_config(config: Config) -> None:
    """Raise unless all that is read of it is of its kind, and says one thing of each port of the program."""
    check(config, "", "config")
    for kind in ("inputs", "outputs", "carry", "noise"):
        expect(isinstance(config[kind], list), kind, config[kind], "a list")
        for i, port in enumerate(config[kind]):
            check(port, f"{kind}[{i}].", kind)
    if config["mask"] is not None:
        check(config["mask"], "mask.", "mask")
    for kind in ("observation_space", "action_space"):
        check_space(config[kind], kind)
    check_ports(config)


def check_space(spec: Any, at: str, depth: int = 0) -> None:
    check(spec, f"{at}.", "space")
    if spec["type"] not in ("Dict", "Tuple"):
        check(spec, f"{at}.", spec["type"])
        if "start" in spec:
            check(spec, f"{at}.", "start")
        return
    parts, kind = spec.get("spaces"), dict if spec["type"] == "Dict" else list
    expect(isinstance(parts, kind) and depth < DEEPEST, f"{at}.spaces", parts, f"a {kind.__name__} of spaces, in at most {DEEPEST} others")
    for key, part in parts.items() if isinstance(parts, dict) else enumerate(parts):
        check_space(part, f"{at}.spaces[{key!r}]", depth + 1)


def check_ports(config: Config) -> None:
    """Raise unless the inputs are what the policy gives, and all that it wants is among the outputs."""
    obs, mask = leaf_specs(config["observation_space"]), config["mask"]
    in_obs = mask is not None and mask["in_obs"]
    expect(not in_obs or config["observation_space"]["type"] == "Dict", "mask.in_obs", in_obs, "false: observations are no Dict")
    expect(obs != [], "observation_space", config["observation_space"], "of at least one part")
    for leaf in obs:
        expect(leaf["own_shape"] == leaf["shape"], f"own_shape of {leaf['port']!r}", leaf["own_shape"], f"{leaf['shape']}, as its shape")
    given = [*map(port_of, [*obs, *config["carry"], *config["noise"]]), *([] if mask is None else [("mask", [mask["size"]], "bool")])]
    inputs, outputs = ([port_of(port) for port in config[kind]] for kind in ("inputs", "outputs"))
    once = len({name for name, _, _ in inputs}) == len(inputs)
    expect(once and sorted(given) == sorted(inputs), "inputs", inputs, f"those of spaces, mask, carry and noise, {given}")
    carried = [(f"next_{name}", shape, dtype) for name, shape, dtype in map(port_of, config["carry"])]
    for port in [*map(port_of, leaf_specs(config["action_space"])), *carried]:
        expect(port in outputs, "outputs", outputs, f"such that {port} is among them")


def port_of(x: Config) -> tuple[str, list[int], str]:
    return x.get("port") or x["name"], x["shape"], x["dtype"]


def check(x: Any, at: str, kind: str) -> None:
    """Raise unless an object has all that is read of its kind, each as its rule wants it."""
    expect(isinstance(x, dict), at.rstrip("."), x, "an object")
    for key in KEYS[kind]:
        rule, text = RULES[key]
        expect(rule(x.get(key), x), f"{at}{key}", x.get(key), text)


def expect(ok: bool, key: str, value: Any, rule: str) -> None:
    if not ok:
        raise BundleError(f"config.json: {key} = {repr(value)[:200]} must be {rule}. Export the policy again.")


def is_shape(x: Any) -> bool:
    return isinstance(x, list) and len(x) <= 32 and all(type(n) is int and 0 <= n <= MOST for n in x) and math.prod(x) <= MOST


def is_name(x: Any) -> bool:
    return x is None or (isinstance(x, str) and x.isprintable())


def are_bounds(x: Any, shape: list[int]) -> bool:
    if shape:
        return isinstance(x, list) and len(x) == shape[0] and all(are_bounds(part, shape[1:]) for part in x)
    return x is None or (type(x) in (int, float) and abs(x) <= sys.float_info.max)


def fits(x: Any, shape: list[int], dtype: str) -> bool:
    """Whether it is one number for all, or one for each, and the dtype holds them."""
    try:
        return reader({"shape": list(np.shape(x)), "dtype": dtype}, "")(x).shape in ((), tuple(shape))
    except ValueError:  # of NumPy, or our own ShapeError
        return False


def are_heads(x: Any, size: int) -> bool:
    in_pairs = isinstance(x, list) and all(isinstance(head, list) and [type(n) for n in head] == [int, int] for head in x)
    return in_pairs and all(0 <= start < end <= size for start, end in x)


RULES: dict[str, tuple[Callable[[Any, Config], bool], str]] = {  # of a value and the object that it is in
    "env": (lambda x, _: is_name(x), "a text without control characters, or null"),
    "algorithm": (lambda x, _: is_name(x), "a text without control characters, or null"),
    "low": (lambda x, of: are_bounds(x, []) or are_bounds(x, of["own_shape"]), "a number, null for none, or lists of them, of own_shape"),
    "high": (lambda x, of: are_bounds(x, []) or are_bounds(x, of["own_shape"]), "a number, null for none, or lists of them, of own_shape"),
    "files": (lambda x, _: isinstance(x, dict) and all(isinstance(v, str) for v in x.values()), "checksums by file"),
    "name": (lambda x, _: isinstance(x, str) and x != "", "a name"),
    "port": (lambda x, _: isinstance(x, str) and x != "", "a name"),
    "shape": (lambda x, _: is_shape(x), f"a list of sizes, for at most {MOST} numbers"),
    "own_shape": (lambda x, of: is_shape(x) and math.prod(x) == math.prod(of["shape"]), "a list of sizes, for as many numbers as shape"),
    "dtype": (lambda x, _: x in DTYPES, f"one of {', '.join(DTYPES)}"),
    "own_dtype": (lambda x, _: x in DTYPES, f"one of {', '.join(DTYPES)}"),
    "initial": (lambda x, of: fits(x, of["shape"], of["dtype"]), "one number for all or for each, as its dtype has them"),
    "kind": (lambda x, _: x in NOISE, f"one of {', '.join(NOISE)}"),
    "size": (lambda x, _: is_shape([x]) and x > 0, "a positive integer"),
    "heads": (lambda x, of: are_heads(x, of["size"]), "a list of where each choice begins and ends, within size"),
    "in_obs": (lambda x, _: isinstance(x, bool), "true or false"),
    "type": (lambda x, _: x in SPACES, f"one of {', '.join(SPACES)}"),
    "n": (lambda x, _: fits(x, [], "int32") and x > 0, "a positive integer of 32 bits"),
    "nvec": (lambda x, of: fits(x, of["own_shape"], "int32") and bool(np.min(x) > 0), "positive integers of own_shape and 32 bits"),
    "start": (lambda x, of: fits(x, of["own_shape"], of["own_dtype"]), "integers of own_shape and own_dtype"),
}
PORT, LEAF = ("name", "shape", "dtype"), ("port", "shape", "dtype", "own_shape", "own_dtype")
KEYS = {  # that are read, by what they are read of
    "config": ("env", "algorithm", "files"), "inputs": PORT, "outputs": PORT, "carry": (*PORT, "initial"), "noise": (*PORT, "kind"),
    "mask": ("size", "heads", "in_obs"), "space": ("type",), "start": ("start",),
    "Box": (*LEAF, "low", "high"), "MultiBinary": LEAF, "Discrete": (*LEAF, "n"), "MultiDiscrete": (*LEAF, "nvec"),
}  # fmt: skip
