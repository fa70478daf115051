"""Find the action masks of Gymnasium environments, which keep them in one of three places."""

import functools
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, flatdim
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from jaxtyping import Bool, PyTree

from .errors import EnvError
from .spaces import mask_allows


class MaskReader:
    """Reads masks from `obs["action_mask"]`, from `info["action_mask"]` or from a method `action_masks()`; true = allowed."""

    def __init__(self, envs: VectorEnv, action_space: gymnasium.Space):
        space = envs.single_observation_space
        self.in_obs = isinstance(space, Dict) and "action_mask" in space.spaces
        self._method = _mask_method(envs)
        self._envs, self._action_space = envs, action_space
        self._shape = (envs.num_envs, flatdim(action_space))
        self._given = False  # so far

    def read(self, obs: PyTree, info: dict[str, Any]) -> Bool[np.ndarray, "B A"] | None:
        """The masks that go with a batch of observations; where one is missing, all is allowed. None if nobody ever gave any."""
        if self.in_obs:
            mask = obs["action_mask"]
        elif "action_mask" in info:
            mask = self._from_info(info)
        elif self._method is not None:
            mask = np.stack(self._method())
        else:
            return np.ones(self._shape, bool) if self._given else None
        self._given = True
        if mask.shape != self._shape:
            raise EnvError(f"{self._envs}: action_mask has shape {mask.shape}; it must be {self._shape}, flat over {self._action_space}.")
        return mask.astype(bool)

    def _from_info(self, info: dict[str, Any]) -> np.ndarray:
        rows = list(info["action_mask"])
        given = info.get("_action_mask", np.ones(len(rows), bool))
        full = np.ones(self._shape[1], bool)
        return np.stack([np.asarray(row) if has and row is not None else full for row, has in zip(rows, given, strict=True)])

    def merge(
        self, mask: Bool[np.ndarray, "B A"] | None, fresh: Bool[np.ndarray, "B A"] | None, where: Bool[np.ndarray, " B"]
    ) -> Bool[np.ndarray, "B A"] | None:
        """`fresh` where the mask says so, the old one elsewhere."""
        if mask is None and fresh is None:
            return None
        full = np.ones(self._shape, bool)
        return np.where(where[:, None], full if fresh is None else fresh, full if mask is None else mask)

    def check(self, mask: Bool[np.ndarray, "B A"], live: Bool[np.ndarray, " B"], step: int) -> None:
        """Raise if a live environment may do nothing."""
        stuck = ~mask_allows(self._action_space, mask) & live
        if stuck.any():
            i = int(np.flatnonzero(stuck)[0])
            raise EnvError(
                f"{self._envs}: action_mask of environment {i} at step {step} is {mask[i]}, which allows nothing. Leave each head "
                f"at least one choice, or end the episode."
            )

    def drop(self, obs: Any) -> Any:
        """Without the mask, and without the dict if nothing else is in it. Takes an observation or its space."""
        if not self.in_obs:
            return obs
        rest = {name: part for name, part in obs.items() if name != "action_mask"}
        if len(rest) == 1:
            return next(iter(rest.values()))
        return Dict(rest) if isinstance(obs, Dict) else rest


def _mask_method(envs: VectorEnv) -> Callable[[], tuple] | None:
    """How to call `action_masks()` of each environment, if they have it."""
    base = envs.unwrapped
    if isinstance(base, SyncVectorEnv):
        found = base.envs[0].has_wrapper_attr("action_masks")
    elif isinstance(base, AsyncVectorEnv):
        found = base.call("has_wrapper_attr", "action_masks")[0]
    else:
        return None
    return functools.partial(base.call, "action_masks") if found else None
