"""What can be known of a model without running it: whether it answers as the spaces of the environment need."""

import inspect
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
from gymnasium.spaces import flatdim
from jaxtyping import PyTree

from rl4jax.core.contract import describe
from rl4jax.core.errors import ShapeError
from rl4jax.core.spaces import struct_of

from .distributions import AbstractDistribution
from .model import Model, initial_carry


def check_model(model: Model, observation_space: gymnasium.Space, action_space: gymnasium.Space) -> None:
    """Raise a clear error unless the model maps one observation to a distribution over the actions and one value."""
    name, (pi, carry, next_carry) = type(model).__name__, check_answer(model, struct_of(observation_space))
    action = eqx.filter_eval_shape(lambda pi: pi.sample(jax.random.key(0)), pi)
    if describe(action) != describe(struct_of(action_space)):
        raise ShapeError(
            f"{name}: its {type(pi).__name__} samples actions {describe(action)}, but the environment takes "
            f"{describe(struct_of(action_space))} ({action_space}). Build it from the space: rl.nn.ActionHead(action_space, ...)."
        )
    if pi.mask_size != flatdim(action_space):
        raise ShapeError(
            f"{name}: its {type(pi).__name__} has {pi.mask_size} numbers for the choices of {action_space}, which has "
            f"{flatdim(action_space)}."
        )
    if carry is not None and describe(next_carry) != describe(carry):
        raise ShapeError(f"{name}: the carry becomes {describe(next_carry)}, but initial_carry() is {describe(carry)}. Make the two agree.")


def check_answer(model: Any, obs: PyTree[jax.ShapeDtypeStruct]) -> tuple[AbstractDistribution, PyTree, PyTree]:
    """Raise a clear error unless the model maps one observation to a distribution and one value.

    What comes back are shapes: the distribution, and the carry before and after, None without.
    """
    check_callable(model)
    name = type(model).__name__
    carry = jax.eval_shape(lambda: initial_carry(model))
    form = "(distribution, value)" if carry is None else "(distribution, value, carry)"
    seen = (obs,) if carry is None else (obs, carry)
    try:
        answer = eqx.filter_eval_shape(lambda *seen: model(*seen), *seen)  # heads may hold functions
    except Exception as error:  # whatever a model of the user's may raise
        given = f"one observation {describe(obs)}" + ("" if carry is None else f" and the memory {describe(carry)} of initial_carry()")
        raise ShapeError(f"{name}: called with {given}, it raises {type(error).__name__}: {error}{_carry_hint(model, carry)}") from error
    if not isinstance(answer, tuple) or len(answer) != (2 if carry is None else 3):
        got = f"{len(answer)} values" if isinstance(answer, tuple) else _name(answer)
        hint = " A recurrent model needs a method initial_carry()." if isinstance(answer, tuple) and len(answer) == 3 else ""
        if isinstance(answer, jax.ShapeDtypeStruct) and len(answer.shape) == 1:
            hint = " Of a Q-network give the policy: rl.nn.QPolicy(model, jnp.zeros(())), or state.policy."
        raise TypeError(f"{name}: one observation gave {got}; the model must return {form}.{hint}")
    pi, value = answer[:2]
    if not isinstance(pi, AbstractDistribution):
        raise TypeError(
            f"{name}: the first value is {_name(pi)}, not a distribution. Return rl.nn.Categorical(logits), or another of "
            f"rl.nn. (Of what rl.load_policy gives, the model is act.model.)"
        )
    if not hasattr(value, "dtype") or value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating):
        shape = getattr(value, "shape", None)
        raise ShapeError(
            f"{name}: a value of shape {shape} for one observation; it must be a float scalar. Use value[0] or jnp.squeeze(value)."
        )
    return pi, carry, None if carry is None else answer[2]


def check_callable(model: Any, of_state: str = "policy") -> None:
    """Raise unless this is a model, and not a class or a state, of which another part is meant."""
    if isinstance(model, type) or not callable(model):
        what = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
        fix = f"Give state.{of_state}." if hasattr(model, of_state) else "Use rl.nn.ActorCritic(env, key=key)."
        raise TypeError(f"model is {what}; it must be an eqx.Module that is called with one observation. {fix}")


def _carry_hint(model: Any, carry: PyTree) -> str:
    """What to do if a model fails because it has, or should have, a memory; nothing for those without."""
    if carry is not None:
        return "\nIf the memory does not fit, make initial_carry() return one that does."
    arguments = inspect.signature(model).parameters.values()
    required = [x for x in arguments if x.default is x.empty and x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
    return "\nA recurrent model needs a method initial_carry()." if len(required) > 1 else ""


def _name(x: Any) -> str:
    return f"an array {describe(x)}" if isinstance(x, jax.ShapeDtypeStruct) else f"a {type(x).__name__}"
