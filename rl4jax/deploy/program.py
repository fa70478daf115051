"""A policy as one function of named arrays: what every runtime computes."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, PyTree

from rl4jax.core.leaf_names import leaves_by_name
from rl4jax.core.spaces import clip_action, struct_of
from rl4jax.nn.distributions import AbstractDistribution, Categorical, Composite, MultiCategorical, Normal, TanhNormal
from rl4jax.nn.distributions.chance import Chance
from rl4jax.nn.distributions.epsilon_greedy import EpsilonGreedy
from rl4jax.nn.model import Model, chance_of, decide, initial_carry
from rl4jax.nn.packed import Packed, pack

from .errors import ExportError


class Port(NamedTuple):
    """An input or output: its name, and shape and dtype of one example."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclasses.dataclass(frozen=True)
class Program:
    """`step(packed, *inputs)` gives a list of outputs; of one example, in the order of the ports."""

    packed: Packed
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    carry: dict[str, np.ndarray]  # at the start of an episode, by the name of the input
    noise: dict[str, str]  # the kind of chance that an input wants
    step: Callable[..., list[Array]]

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """All arrays of the model by name, running statistics included."""
        return {name: np.asarray(x) for name, x in (self.packed.params | self.packed.buffers).items()}

    def with_weights(self, weights: dict[str, Any]) -> Packed:
        """The model with other arrays."""
        params = {name: weights[name] for name in self.packed.params}
        return Packed(params, {name: weights[name] for name in self.packed.buffers}, self.packed.rest)


def make_program(
    model: Model, observation_space: gymnasium.Space, action_space: gymnasium.Space, *, masked: bool = False, sample: bool = False
) -> Program:
    """The policy of a model: greedy, or with `sample` one whose chance comes in from outside.

    Inputs are `obs`, `mask`, `carry` and `noise`, as far as there are such; those with parts are named `obs.position` and so on. Outputs
    are `action`, the parameters of its distribution, such as `logits`, `value` and `next_carry`.
    """
    packed, carry = pack(model), initial_carry(model)
    obs = struct_of(observation_space)
    chance = chance_of(model, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), obs), carry) if sample else None
    kinds, _ = leaves_by_name({"noise": chance})
    example = {
        "obs": obs,
        "mask": jax.ShapeDtypeStruct((int(spaces.flatdim(action_space)),), np.bool_) if masked else None,
        "carry": carry,
        "noise": jax.tree.map(_struct_of_chance, chance, is_leaf=lambda x: isinstance(x, Chance)),
    }
    check_names(example)
    named, structure = leaves_by_name(example)

    def named_outputs(packed: Packed, *inputs: Array) -> dict[str, Array]:
        given = structure.unflatten(inputs)
        seen = as_the_env_counts(observation_space, given["obs"])
        action, pi, value, next_carry = decide(packed.model, seen, given["carry"], given["mask"], given["noise"])
        parts = {"action": clip_action(action_space, action), **parameters(pi, action), "value": value, "next_carry": next_carry}
        check_names(parts)
        return {name: leaf for part, tree in parts.items() for name, leaf in leaves_by_name({part: tree})[0].items()}

    def step(packed: Packed, *inputs: Array) -> list[Array]:
        return jax.tree.leaves(named_outputs(packed, *inputs))

    outputs = jax.eval_shape(named_outputs, packed, *named.values())
    return Program(
        packed=packed,
        inputs=_ports(named),
        outputs=_ports(outputs),
        carry={name: np.asarray(x) for name, x in leaves_by_name({"carry": carry})[0].items()},
        noise={name: chance.kind for name, chance in kinds.items()},
        step=step,
    )


def as_the_env_counts(space: gymnasium.Space, obs: PyTree) -> PyTree:
    """An observation as in training: choices of programs count from 0, those of in-graph environments from their `start`."""
    if isinstance(space, spaces.Dict):
        return {name: as_the_env_counts(part, obs[name]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(as_the_env_counts(part, part_obs) for part, part_obs in zip(space, obs, strict=True))
    start = space.start if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else 0
    return obs + np.asarray(start, np.int32) if np.any(start) else obs


def parameters(pi: AbstractDistribution, action: PyTree) -> dict[str, PyTree]:
    """What a distribution is made of, by name; of one with parts, what each is made of given those of the action before it."""
    if isinstance(pi, Composite):
        parts = {name: parameters(part, action[name]) for name, part in pi.given(action).items()}
        return {f"{kind}.{name}": x for name, kinds in parts.items() for kind, x in kinds.items()}
    if isinstance(pi, Categorical | MultiCategorical):
        return {"logits": pi.logits}
    if isinstance(pi, Normal):
        return {"mean": pi.mean, "log_std": pi.clamped_log_std()}
    if isinstance(pi, TanhNormal):
        return {"mean": pi.mean, "log_std": pi.normal.clamped_log_std()}  # before it is squashed
    if isinstance(pi, EpsilonGreedy):
        return {"q_values": pi.q_values}
    return {f"pi.{name}": x for name, x in leaves_by_name(pi)[0].items()}  # of somebody's own, whose names we do not know


def check_names(tree: PyTree) -> None:
    """Raise if two leaves would have one name: a dict may have a key with a dot."""
    ways: dict[str, str] = {}
    for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name, way = jax.tree_util.keystr(path, simple=True, separator="."), jax.tree_util.keystr(path)
        if name in ways:
            raise ExportError(f"deploy.export: {ways[name]} and {way} would both be called {name!r}. Rename one of them.")
        ways[name] = way


def _struct_of_chance(chance: Chance) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(chance.shape, np.float32)


def _ports(named: dict[str, Any]) -> tuple[Port, ...]:
    return tuple(Port(name, tuple(x.shape), np.dtype(x.dtype).name) for name, x in named.items())
