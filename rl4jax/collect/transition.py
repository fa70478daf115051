"""What Q-learning remembers: n steps from one observation to another, folded into one transition."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, PyTree

from rl4jax.core.errors import ConfigError, EnvError, ShapeError
from rl4jax.core.host_arrays import map_arrays

from .rollout import Rollout


class Transition(NamedTuple):
    """From `obs` by `action`, and by the actions that followed, to `next_obs`: `target = reward + discount * value(next_obs)`."""

    obs: PyTree
    action: PyTree
    reward: Float[Any, "*N"]  # discounted sum of the n rewards, or of those up to the end of the episode
    discount: Float[Any, "*N"]  # gamma to the number of steps; 0 if the episode terminated
    next_obs: PyTree
    next_mask: Bool[Any, "*N A"] | None  # what is allowed there


class Window(NamedTuple):
    """The last steps of each environment, `[K, B, ...]`, which wait for those that follow them."""

    obs: PyTree
    action: PyTree
    reward: Float[Any, "K B"]
    terminated: Bool[Any, "K B"]
    truncated: Bool[Any, "K B"]
    next_obs: PyTree
    is_first: Bool[Any, "K B"]
    mask: Bool[Any, "K B A"] | None
    valid: Bool[Any, "K B"]


def begin_window(obs: PyTree, action: PyTree, mask: Bool[Any, "B A"] | None, n_step: int, xp: Any) -> Window:
    """No steps yet: K slots that are not valid, for observations `[B, ...]` and actions such as `action`.

    What is allowed after a step is known with the next one, so with masks one step more has to wait.
    """
    num_envs = jax.tree.leaves(obs)[0].shape[0]
    num_steps = n_step - 1 if mask is None else n_step

    def wait(x: Any) -> Any:
        return jax.tree.map(lambda x: xp.zeros((num_steps, *x.shape), x.dtype), x)

    def flag() -> Any:  # a new one each time: what is donated must not be there twice
        return xp.zeros((num_steps, num_envs), bool)

    action = jax.tree.map(lambda x: xp.zeros((num_steps, num_envs, *x.shape), x.dtype), action)
    reward = xp.zeros((num_steps, num_envs), np.float32)
    return Window(wait(obs), action, reward, flag(), flag(), wait(obs), is_first=flag(), mask=wait(mask), valid=flag())


def fold(window: Window, rollout: Rollout, n_step: int, gamma: Any, xp: Any) -> tuple[Window, Transition, Bool[Any, " N"]]:
    """The window after a rollout, and as many transitions as the rollout has steps, flat `[T * B]`, with whether each is real.

    No transition crosses the end of an episode: it is then shorter than n. With masks, one that ends by truncation is left out, because
    nobody knows what would have been allowed then. `xp` is `jax.numpy`, or `numpy` for the host.
    """
    _check(window, rollout, n_step)
    if n_step == 1 and rollout.mask is None:  # nothing to wait for
        discount = xp.where(rollout.terminated, 0, xp.float32(gamma))
        items = (rollout.obs, rollout.action, rollout.reward, discount, rollout.next_obs, None, rollout.valid)
        *items, valid = (map_arrays(_flat, part) for part in items)
        return window, Transition(*items), valid
    num_steps = rollout.reward.shape[0]
    steps = jax.tree.map(lambda old, new: xp.concatenate([old, new]), window, _steps(rollout))
    # An episode that was given up, as when a run on the host is resumed, is cut off where another one begins.
    given_up = xp.concatenate([steps.is_first[1:], xp.zeros_like(steps.is_first[:1])]) & ~steps.terminated
    steps = steps._replace(truncated=(steps.truncated | given_up) & ~steps.terminated)  # a time limit may come with a real end

    def at(k: int) -> Window:
        return jax.tree.map(lambda x: x[k : k + num_steps], steps)

    last = at(n_step - 1)
    reward, next_obs, truncated = last.reward, last.next_obs, last.truncated
    discount = xp.where(last.terminated, 0.0, gamma)
    next_mask = None if last.mask is None else at(n_step).mask
    for k in reversed(range(n_step - 1)):
        now = at(k)
        ended = now.terminated | now.truncated
        reward = now.reward + xp.where(ended, 0.0, gamma * reward)
        discount = xp.where(ended, xp.where(now.terminated, 0.0, gamma), gamma * discount)
        next_obs = jax.tree.map(lambda here, there, e=ended: xp.where(_like(e, here), here, there), now.next_obs, next_obs)
        truncated = xp.where(ended, now.truncated, truncated)
        next_mask = None if next_mask is None else xp.where(ended[..., None], True, next_mask)
    first = at(0)
    valid = first.valid
    if next_mask is not None:
        valid, next_mask = valid & ~truncated, next_mask | (discount == 0)[..., None]
    transition = Transition(first.obs, first.action, reward.astype(np.float32), discount.astype(np.float32), next_obs, next_mask)
    flat = jax.tree.map(_flat, (transition, valid))
    return jax.tree.map(lambda x: x[num_steps:], steps), *flat


def _check(window: Window, rollout: Rollout, n_step: int) -> None:
    """Raise unless the rollout is whole and goes on where the window ends, as far as shapes tell."""
    shape = rollout.terminated.shape
    for name in ("reward", "valid"):  # those that people replace
        if getattr(rollout, name).shape != shape:
            found = getattr(rollout, name).shape
            raise ShapeError(f"update: rollout.{name} has shape {found}; it must be that of its other fields, {shape}.")
    if (window.mask is None) != (rollout.mask is None):
        raise EnvError(
            "update: the environment gave masks from the start but not now, or the other way round. An environment with masks must give "
            "them from its first reset on."
        )
    waiting = n_step - 1 if rollout.mask is None else n_step
    known, num_envs = window.reward.shape
    if known != waiting or (waiting and num_envs != shape[1]):
        raise ConfigError(
            f"update: the rollout is of {shape[1]} environments and n_step = {n_step}, but the state was begun for {num_envs} environments "
            f"and n_step = {known + n_step - waiting}. Begin a new one for these: dqn.init."
        )


def _flat(x: Any) -> Any:
    return x[0] if x.shape[0] == 1 else x.reshape(-1, *x.shape[2:])  # a single step in much less time, and that often


def _steps(rollout: Rollout) -> Window:
    r = rollout
    return Window(r.obs, r.action, r.reward, r.terminated, r.truncated, r.next_obs, r.is_first, r.mask, r.valid)


def _like(mask: Any, x: Any) -> Any:
    return mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))
