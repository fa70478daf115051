"""A policy from a bundle, ready to act: `act = deploy.load(folder)`, then `action, carry = act(obs)`. NumPy only, but for the engine."""

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rl4jax.core.errors import ConfigError, EnvError, ShapeError, did_you_mean

from .bundle import Config, read_config
from .codec import Arrays, as_array, decoder, encoder

Engine = Callable[[Arrays, list[str]], Arrays]  # the program: inputs with a batch axis to these outputs, by name
RUNTIMES = {"onnxruntime": "on_onnxruntime", "numpy": "on_numpy", "jax": "on_jax"}  # and the modules that make their engines


def load(folder: str | os.PathLike[str], runtime: str = "onnxruntime", *, seed: int | None = None) -> "Policy":
    """The policy of a bundle, on `onnxruntime`, on `jax`, or on `numpy` alone. `seed` is that of a policy that samples.

    Nothing in a bundle is run as code, and its files are compared with what was exported.
    """
    if runtime not in RUNTIMES:
        raise ConfigError(f"deploy.load: runtime = {runtime!r} is not one we know. {did_you_mean(runtime, RUNTIMES)}")
    config = read_config(Path(folder))
    make_engine = importlib.import_module(f"rl4jax.deploy.{RUNTIMES[runtime]}").make_engine
    return Policy(config, make_engine(Path(folder), config), seed)


class Policy:
    """`action, carry = policy(obs, carry, mask)`, of one observation or of a batch. Start each episode without a carry."""

    def __init__(self, config: Config, engine: Engine, seed: int | None = None):
        self.config, self.engine = config, engine
        self._encode, self._decode = encoder(config["observation_space"]), decoder(config["action_space"])
        self._rng = np.random.default_rng(seed)
        self._all = [port["name"] for port in config["outputs"]]
        self._needed = [name for name in self._all if name.startswith(("action", "next_carry"))]
        self._takes_more = bool(config["mask"] or config["carry"] or config["noise"])
        self._carry = {c["name"]: np.broadcast_to(np.asarray(c["initial"], c["dtype"]), c["shape"]) for c in config["carry"]}

    def __repr__(self) -> str:
        return f"Policy({self.config.get('algorithm')} for {self.config.get('env')})"

    def __call__(self, obs: Any, carry: Any = None, mask: Any = None) -> tuple[Any, Arrays | None]:
        """An action as the environment takes it, and what to remember: None of a policy that has no memory."""
        outputs, batched = self._run(obs, carry, mask, self._needed)
        action, carry = self._decode(outputs), self._next_carry(outputs)
        if batched:
            return action, carry
        return first(action), None if carry is None else first(carry)

    def outputs(self, obs: Any, carry: Any = None, mask: Any = None) -> dict[str, Any]:
        """All that the policy says: `action`, `carry`, `value`, and the parameters of its distribution, such as `logits`."""
        outputs, batched = self._run(obs, carry, mask, self._all)
        rest = {name: x for name, x in outputs.items() if not name.startswith(("action", "next_carry"))}
        said = {"action": self._decode(outputs), "carry": self._next_carry(outputs), **rest}
        return said if batched else first(said)

    def _run(self, obs: Any, carry: Any, mask: Any, names: list[str]) -> tuple[Arrays, bool]:
        inputs, batched = self._encode(obs)
        if self._takes_more or carry is not None or mask is not None:
            inputs |= self._more(obs, carry, mask, len(next(iter(inputs.values()))), batched)
        return self.engine(inputs, names), batched

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
            inputs[noise["name"]] = DRAW[noise["kind"]](self._rng, (size, *noise["shape"])).astype(np.float32)
        return inputs

    def _mask_in(self, obs: Any) -> Any:
        if not self.config["mask"]["in_obs"]:
            size = self.config["mask"]["size"]
            raise EnvError(f"{self}: mask is missing, but its environment has masks. Give {size} of true (allowed) or false.")
        if not isinstance(obs, dict) or "action_mask" not in obs:
            raise EnvError(f"{self}: obs has no action_mask, which its environment has. Give it there, or as mask.")
        return obs["action_mask"]

    def _checked_mask(self, mask: Any, size: int, batched: bool) -> np.ndarray:
        if self.config["mask"] is None:
            raise ShapeError(f"{self}: mask was given, but the policy was exported without one. Leave it out.")
        shape, heads = (self.config["mask"]["size"],), self.config["mask"]["heads"]
        array = as_array(mask, list(shape), "mask", "bool").astype(bool)
        if array.shape != ((size, *shape) if batched else shape):
            raise ShapeError(f"mask has shape {array.shape}; it must be {(size, *shape) if batched else shape}, as obs has it.")
        if not all(array[..., start:end].any(-1).all() for start, end in heads):
            raise ShapeError("mask allows no action at all. Give true for those that are allowed, at least one for each choice.")
        return array.reshape(size, *shape)

    def _carried(self, carry: Any, size: int, batched: bool) -> Arrays:
        if carry is None:
            return {name: np.broadcast_to(x, (size, *x.shape)) for name, x in self._carry.items()}
        if not isinstance(carry, dict) or set(carry) != set(self._carry):
            raise ShapeError(f"carry must be that of the last answer, a dict of {sorted(self._carry)}, or none where an episode begins.")
        inputs = {}
        for name, like in self._carry.items():
            array = as_array(carry[name], list(like.shape), f"carry[{name!r}]", like.dtype.name).astype(like.dtype, copy=False)
            wanted = (size, *like.shape) if batched else like.shape
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ShapeError(f"carry[{name!r}] has a number that is not finite. Start the episode again, without a carry.")
            if array.shape != wanted:
                raise ShapeError(f"carry[{name!r}] has shape {array.shape}; it must be {wanted}, as obs has it.")
            inputs[name] = array.reshape(size, *like.shape)
        return inputs

    def _next_carry(self, outputs: Arrays) -> Arrays | None:
        return {name: outputs[f"next_{name}"] for name in self._carry} or None


DRAW = {
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
