"""Assertions for tests: a gradient goes where it should and nowhere else, and an update changes what it should."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from rl4jax.core.errors import ConfigError, did_you_mean
from rl4jax.core.leaf_names import leaves_by_name

from .examination import report
from .findings import in_short

Names = str | Sequence[str]  # of parameters, or of the parts of a model that hold them: "policy" is all of `policy.linear.weight`, ...


def assert_flow(
    loss_fn: Callable[..., Any], model: Any, /, *args: Any, reaches: Names = (), not_reaches: Names = (), **kwargs: Any
) -> None:
    """Fail unless `loss_fn(model, *args, **kwargs)` has a gradient for each parameter of some parts of the model, and none for others.

    `reaches` wants gradients that are finite and not zero; `not_reaches` wants that there is no way for one, whatever the numbers.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> def loss(nets, x):
    ...     return jnp.square(nets["online"] @ x - jax.lax.stop_gradient(nets["target"] @ x))
    >>> nets = {"online": jnp.ones(2), "target": jnp.zeros(2)}
    >>> assert_flow(loss, nets, jnp.ones(2), reaches="online", not_reaches="target")
    """
    found = {gradient.name: gradient for gradient in report(loss_fn, model, *args, **kwargs)}
    wanted = [found[name] for name in select(reaches, found, "assert_flow: reaches")]
    unwanted = [found[name] for name in select(not_reaches, found, "assert_flow: not_reaches")]
    wrong = [f"{x.name} must have a gradient, and it is {x.status}{f': {x.cause}' if x.cause else '.'}" for x in wanted if x.status != "ok"]
    wrong += [f"{x.name} must have no gradient, and there is one, of norm {x.norm:.3g}." for x in unwanted if x.flows]
    if wrong:
        raise AssertionError("\n".join(wrong))


def model_of(state: Any) -> Any:
    """`state.model`, as the states of the library have it."""
    try:
        return state.model
    except AttributeError as error:
        fix = "Say how to take the model out of it: of=lambda state: state[0], or of=lambda state: state if it is the model itself."
        raise TypeError(f"assert_step_changes: state is a {type(state).__name__}, which has no attribute `model`. {fix}") from error


def assert_step_changes(update: Callable[..., Any], state: Any, *args: Any, names: Names = (), of: Callable[[Any], Any] = model_of) -> None:
    """Fail unless `update(state, *args)`, the new state or a tuple that begins with it, changes every parameter, and all stay finite.

    `names` are the parts of the model that must change; none: all. `of` takes the model out of a state: `state.model`, unless told.
    """
    answer = update(state, *args)
    has_more = type(answer) is tuple and jax.tree.structure(answer) != jax.tree.structure(state)  # a state may be a tuple itself
    before, after = (leaves_by_name(of(x))[0] for x in (state, answer[0] if has_more else answer))
    params = {name: np.asarray(x) for name, x in before.items() if eqx.is_inexact_array(x)}
    chosen = select(names, params, "assert_step_changes: names") if names else list(params)
    bad = [name for name in params if not np.isfinite(np.asarray(after[name])).all()]
    same = [name for name in chosen if np.array_equal(params[name], np.asarray(after[name]))]
    if bad:
        raise AssertionError(f"The step makes {in_short(bad)} non-finite.")
    if same:
        advice = "rl.gradients.report tells why."
        if len(same) == len(params):
            advice = f"Nothing has changed at all: is the learning rate 0, or was the step skipped (train/skipped)? {advice}"
        raise AssertionError(f"The step does not change {in_short(same)}. {advice}")


def select(names: Names, known: Iterable[str], argument: str) -> list[str]:
    """The parameters that some names mean.

    >>> select("policy", ["policy.weight", "policy.bias", "policy_2"], "names")
    ['policy.weight', 'policy.bias']
    """
    known, chosen = list(known), []
    for part in (names,) if isinstance(names, str) else names:
        found = [name for name in known if name == part or name.startswith(f"{part}.")]
        if not found:
            whole = {".".join(steps[:i]) for steps in (name.split(".") for name in known) for i in range(1, len(steps) + 1)}
            raise ConfigError(f"{argument}: the model has no parameter {part!r}, and no part of that name. {did_you_mean(part, whole)}")
        chosen += found
    return chosen
