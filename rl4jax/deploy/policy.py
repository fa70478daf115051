"""A policy from a bundle, ready to act: `act = deploy.load(folder)`, then `action, carry = act(obs)`. NumPy only, but for the engine."""

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rl4jax.core.errors import ConfigError, EnvError, ShapeError, did_you_mean, is_count, require

from .bundle import Config, read_config
from .codec import MASK, Arrays, decoder, encoder, leaf_specs, reader
from .errors import BundleError, printable

Engine = Callable[[Arrays, list[str]], Arrays]  # the program: inputs with a batch axis to these outputs, by name
RUNTIMES = {"onnxruntime": "on_onnxruntime", "numpy": "on_numpy", "jax": "on_jax"}  # and the modules that make their engines


def load(folder: str | os.PathLike[str], runtime: str = "onnxruntime", *, seed: int | None = None) -> "Policy":
    """The policy of a bundle, on `onnxruntime`, on `jax`, or on `numpy` alone. `seed` is that of a policy that samples.

    Nothing in a bundle is run as code, and its files are compared with what was exported.
    """
    require(isinstance(folder, str | os.PathLike), "deploy.load: folder", folder, "a path")
    if not isinstance(runtime, str) or runtime not in RUNTIMES:
        raise ConfigError(f"deploy.load: runtime = {runtime!r} is not one we know. {did_you_mean(str(runtime), RUNTIMES)}")
    is_seed = isinstance(seed, int | np.integer) and not isinstance(seed, bool) and seed >= 0
    require(seed is None or is_seed, "deploy.load: seed", seed, "an integer of at least 0, or None")
    config = read_config(Path(folder))
    make_engine = importlib.import_module(f"rl4jax.deploy.{RUNTIMES[runtime]}").make_engine
    policy = Policy(config, make_engine(Path(folder), config), seed)
    policy.check_program()
    return policy


class Policy:
    """`action, carry = policy(obs, carry, mask)`, of one observation or of a batch. Start each episode without a carry."""

    def __init__(self, config: Config, engine: Engine, seed: int | None = None):
        self.config, self.engine = config, engine
        self._encode, self._decode = encoder(config["observation_space"]), decoder(config["action_space"])
        self._rng = np.random.default_rng(seed)
        self._all = [port["name"] for port in config["outputs"]]
        self._carry = {c["name"]: np.broadcast_to(np.asarray(c["initial"], c["dtype"]), c["shape"]) for c in config["carry"]}
        self._needed = [leaf["port"] for leaf in leaf_specs(config["action_space"])] + [f"next_{name}" for name in self._carry]
        self._takes_more = bool(config["mask"] or config["carry"] or config["noise"])
        self._read_carry = {c["name"]: reader(c, f"carry[{c['name']!r}]") for c in config["carry"]}
        self._read_mask = reader({"shape": [config["mask"]["size"]], "dtype": "bool"}, "mask") if config["mask"] else None

    def __repr__(self) -> str:
        return f"Policy({self.config.get('algorithm')} for {self.config.get('env')})"

    def __call__(self, obs: Any, carry: Any = None, mask: Any = None) -> tuple[Any, dict[str, Any] | None]:
        """An action as the environment takes it, and what to remember: None of a policy that has no memory."""
        outputs, batched = self._run(obs, carry, mask, self._needed)
        action, carry = self._decode(outputs), self._next_carry(outputs)
        if batched:
            return action, carry
        return first(action), None if carry is None else first(carry)

    def outputs(self, obs: Any, carry: Any = None, mask: Any = None) -> dict[str, Any]:
        """All that the policy says: `action`, `carry`, `value`, and the parameters of its distribution, such as `logits`."""
        outputs, batched = self._run(obs, carry, mask, self._all)
        rest = {name: x for name, x in outputs.items() if name not in self._needed}
        said = {"action": self._decode(outputs), "carry": self._next_carry(outputs), **rest}
        return said if batched else first(said)

    def start(self, size: int | None = None) -> dict[str, np.ndarray] | None:
        """What it remembers where an episode begins, or so many of them; None of a policy that has no memory.

        In a batch some episodes end before others: put theirs back with `np.where(over, policy.start(size)[name], carry[name])`.
        """
        require(size is None or is_count(size), "Policy.start: size", size, "a positive integer, or None for one episode")
        batch = () if size is None else (size,)
        return {name: np.broadcast_to(x, (*batch, *x.shape)).copy() for name, x in self._carry.items()} or None

    def _run(self, obs: Any, carry: Any, mask: Any, names: list[str]) -> tuple[Arrays, bool]:
        inputs, batched = self._encode(obs)
        if self._takes_more or carry is not None or mask is not None:
            inputs |= self._more(obs, carry, mask, len(next(iter(inputs.values()))), batched)
        return self._answers(inputs, names), batched

    def _answers(self, inputs: Arrays, names: list[str]) -> Arrays:
        try:
            answers = self.engine(inputs, names)
        except Exception as error:  # each engine has errors of its own
            raise BundleError(f"{self}: its program failed: {printable(error).rstrip('.')}. Export the policy again.") from error
        asked = len(next(iter(inputs.values())))
        if any(np.shape(answers[name])[:1] != (asked,) for name in names):
            shapes = {name: np.shape(answers[name]) for name in names}
            raise BundleError(f"{self}: its program answers {shapes} to {asked} observations. Export the policy again.")
        return answers

    def check_program(self) -> None:
        """Raise unless it answers to zeros with all that the config says."""
        inputs = {port["name"]: np.zeros((1, *port["shape"]), port["dtype"]) for port in self.config["inputs"]}
        inputs |= {name: x[None] for name, x in self._carry.items()}
        inputs |= {"mask": np.ones_like(inputs["mask"])} if self._read_mask else {}
        with np.errstate(all="ignore"):
            answers = self._answers(inputs, self._all)
        for port in self.config["outputs"]:
            got, wanted = answers[port["name"]], f"{port['dtype']} {(1, *port['shape'])}"
            said = f"{got.dtype} {got.shape}" if isinstance(got, np.ndarray) else type(got).__name__
            if said != wanted:
                raise BundleError(
                    f"{self}: its program answers {port['name']!r} as {said}; config.json says {wanted}. Export the policy again."
                )

    def _more(self, obs: Any, carry: Any, mask: Any, size: int, batched: bool) -> Arrays:
        """What goes in beside the observation."""
        inputs = {}
        if mask is None and self.config["mask"] is not None:
            mask = self._mask_in(obs)
        if mask is not None:
            inputs["mask"] = self._checked_mask(mask, size, batched)
        if self._carry:
            inputs |= self._carried(carry, size, batched)
        elif carry is not None:
            raise ShapeError(f"{self}: carry was given, but the policy has no memory. Leave it out.")
        for noise in self.config["noise"]:
            inputs[noise["name"]] = DRAW[noise["kind"]](self._rng, (size, *noise["shape"])).astype(noise["dtype"])
        return inputs

    def _mask_in(self, obs: Any) -> Any:
        if not self.config["mask"]["in_obs"]:
            size = self.config["mask"]["size"]
            raise EnvError(f"{self}: mask is missing, but its environment has masks. Give {size} of true (allowed) or false.")
        if not isinstance(obs, dict) or MASK not in obs:
            raise EnvError(f"{self}: obs has no {MASK}, which its environment has. Give it there, or as mask.")
        return obs[MASK]

    def _checked_mask(self, mask: Any, size: int, batched: bool) -> np.ndarray:
        if self._read_mask is None:
            raise ShapeError(f"{self}: mask was given, but the policy was exported without one. Leave it out.")
        array = as_obs(self._read_mask(mask), (self.config["mask"]["size"],), size, batched, "mask")
        if not all(array[:, start:end].any(-1).all() for start, end in self.config["mask"]["heads"]):
            raise ShapeError("mask allows no action at all. Give true for those that are allowed, at least one for each choice.")
        return array

    def _carried(self, carry: Any, size: int, batched: bool) -> Arrays:
        if carry is None:
            return self.start(size) or {}
        if not isinstance(carry, dict) or set(carry) != set(self._carry):
            raise ShapeError(f"carry must be that of the last answer, a dict of {sorted(self._carry)}, or none where an episode begins.")
        arrays = {name: read(carry[name]) for name, read in self._read_carry.items()}
        return {name: as_obs(x, self._carry[name].shape, size, batched, f"carry[{name!r}]") for name, x in arrays.items()}

    def _next_carry(self, outputs: Arrays) -> Arrays | None:
        return {name: outputs[f"next_{name}"] for name in self._carry} or None


def as_obs(array: np.ndarray, shape: tuple[int, ...], size: int, batched: bool, name: str) -> np.ndarray:
    """With a batch axis, if it is for as many as there are observations."""
    wanted = (size, *shape) if batched else shape
    if array.shape != wanted:
        raise ShapeError(f"{name} has shape {array.shape}; it must be {wanted}, as obs has it.")
    return array.reshape(size, *shape)


DRAW = {  # each of `config_check.NOISE`
    "gumbel": lambda rng, shape: rng.gumbel(size=shape),
    "normal": lambda rng, shape: rng.normal(size=shape),
    "uniform": lambda rng, shape: rng.random(shape),
}


def first(x: Any) -> Any:
    """The first of a batch of one."""
    if isinstance(x, dict):
        return {key: first(part) for key, part in x.items()}
    if isinstance(x, tuple):
        return tuple(first(part) for part in x)
    return None if x is None else x[0]
