"""Gymnasium environments behind the same `reset` and `step` as ours, run by Python on the host."""

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
from gymnasium.spaces import Dict, flatdim
from gymnasium.vector import AutoresetMode, VectorEnv
from jax.core import Tracer
from jaxtyping import Bool, Int, PRNGKeyArray, PyTree

from .errors import EnvError
from .gym_make import autoreset_mode, make_vector_env, mask_method
from .gym_spaces import own_action, shown_action_space, shown_obs, shown_obs_space
from .spaces import mask_allows, struct_of
from .vec_env import VecStep


class GymState(NamedTuple):
    """What the caller holds of a host environment, whose real state lives in Python."""

    token: Int[Any, ""]  # which of the environment's steps this is: an old state cannot be stepped again
    dead: Bool[Any, " B"]  # the next step only resets these (NEXT_STEP mode)
    mask: Bool[Any, "B A"] | None


class GymVecEnv:
    """Any Gymnasium environments as one vector environment of ours.

    `env` is a Gymnasium id, a function that makes a `gymnasium.Env`, or a ready `gymnasium.vector.VectorEnv` (EnvPool's
    included). The first two are run one after another, or each in a spawned process of its own with `asynchronous=True`;
    then the calling script needs the usual `if __name__ == "__main__":`.

    Action masks are taken from `info["action_mask"]`, from `obs["action_mask"]` (and then removed from the observation) or
    from a method `action_masks()`. Everything a step returns is a copy.
    """

    def __init__(
        self,
        env: str | Callable[[], gymnasium.Env] | VectorEnv,
        num_envs: int | None = None,
        *,
        asynchronous: bool = False,
        **env_kwargs: Any,
    ):
        self.envs = make_vector_env(env, num_envs, asynchronous, env_kwargs)
        self.num_envs = self.envs.num_envs
        self._mode = autoreset_mode(self.envs)
        self._obs_space = self.envs.single_observation_space
        self._mask_in_obs = isinstance(self._obs_space, Dict) and "action_mask" in self._obs_space.spaces
        self._seeded_when_made = any(base.__module__.startswith("envpool.") for base in type(self.envs.unwrapped).__mro__)
        self._mask_method = mask_method(self.envs)
        self._action_space = shown_action_space(self.envs.single_action_space)
        self._shown_obs_space = self._drop_mask(shown_obs_space(self._obs_space))
        self._obs_shapes = [(self.num_envs, *x.shape) for x in jax.tree.leaves(struct_of(self._obs_space))]
        self._token = 0

    @property
    def single_observation_space(self) -> gymnasium.Space:
        """Of one of the environments."""
        return self._shown_obs_space

    @property
    def single_action_space(self) -> gymnasium.Space:
        """Of one of the environments."""
        return self._action_space

    def reset(self, key: PRNGKeyArray) -> tuple[GymState, PyTree]:
        """Start all episodes anew, seeded from the key (EnvPool's were seeded when they were made)."""
        _refuse_tracing("reset", key)
        seed = None if self._seeded_when_made else int(jax.random.randint(key, (), 0, np.iinfo(np.int32).max - self.num_envs))
        obs, info = self.envs.reset(seed=seed)
        return self._next(self._shown(obs), info, np.zeros(self.num_envs, bool))

    def step(self, state: GymState, action: PyTree, key: PRNGKeyArray | None = None) -> tuple[GymState, VecStep]:
        """Move all environments on by one action each. The key is not used: host environments draw from their own seeds."""
        _refuse_tracing("step", (state, action, key))
        if int(state.token) != self._token:
            raise EnvError(
                f"GymVecEnv.step: this state is of step {int(state.token)}, but the environment is at step {self._token}. Host "
                f"environments cannot go back: always step with the newest state, or reset."
            )
        action = own_action(self.envs.single_action_space, self._action_space, action, self.num_envs)
        obs, reward, terminated, truncated, info = self.envs.step(action)
        self._check_step(reward, terminated, truncated)

        ended = terminated | truncated
        obs = final_obs = self._shown(obs)
        if self._mode == AutoresetMode.SAME_STEP and ended.any():
            final_obs = self._final_obs(obs, info, ended)
        if self._mode == AutoresetMode.DISABLED and ended.any():
            obs, info = self._reset_ended(info, ended)
        self._check_finite(final_obs, reward)

        dead = ended if self._mode == AutoresetMode.NEXT_STEP else np.zeros_like(ended)
        valid = ~np.asarray(state.dead)
        state, obs = self._next(obs, info, dead)
        reward, terminated, truncated = np.array(reward, np.float32), np.array(terminated), np.array(truncated)
        return state, VecStep(obs, reward, terminated, truncated, self._drop_mask(final_obs), valid)

    def action_mask(self, state: GymState) -> Bool[Any, "B A"] | None:
        """Which actions are allowed now, per environment; None if the environment has no masks."""
        return state.mask

    def privileged(self, state: GymState) -> None:
        """Nothing: Gymnasium has no such channel. Here so that both kinds of environment answer."""

    def close(self) -> None:
        """Close the environments, and end their worker processes."""
        self.envs.close()

    def __enter__(self) -> "GymVecEnv":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"GymVecEnv({self.envs})"

    # Reading what the environment returned

    def _next(self, obs: PyTree, info: dict[str, Any], dead: Bool[np.ndarray, " B"]) -> tuple[GymState, PyTree]:
        self._check_finite(obs)
        mask = self._mask(obs, info, dead)
        self._token += 1
        return GymState(np.int32(self._token), dead, mask), self._drop_mask(obs)

    def _final_obs(self, obs: PyTree, info: dict[str, Any], ended: Bool[np.ndarray, " B"]) -> PyTree:
        """SAME_STEP keeps the last observations in `info["final_obs"]`: put them where their episodes ended."""
        if "final_obs" not in info:
            raise EnvError(
                f"{self}: its autoreset mode is SAME_STEP and an episode ended, but info has no 'final_obs' (it has "
                f"{sorted(info)}). The environment must keep the last observation there."
            )
        last = info["final_obs"]
        if isinstance(last, np.ndarray) and last.dtype == object:  # one entry per environment, None where none ended
            entries = [jax.tree.map(np.asarray, last[i]) for i in np.flatnonzero(ended)]
            last = jax.tree.map(lambda *parts: np.stack(parts), *entries)
        else:  # a whole batch
            last = jax.tree.map(lambda x: np.asarray(x)[ended], last)
        final = jax.tree.map(np.copy, obs)
        for target, value in zip(jax.tree.leaves(final), jax.tree.leaves(shown_obs(self._obs_space, last)), strict=True):
            target[ended] = value
        return final

    def _reset_ended(self, info: dict[str, Any], ended: Bool[np.ndarray, " B"]) -> tuple[PyTree, dict[str, Any]]:
        """DISABLED leaves the reset to us. The masks of the others stay those of their step."""
        obs, reset_info = self.envs.reset(options={"reset_mask": ended.copy()})
        if "action_mask" in reset_info and "action_mask" in info:
            masks = np.where(ended[:, None], np.stack(reset_info["action_mask"]), np.stack(info["action_mask"]))
            reset_info = {"action_mask": masks}
        return self._shown(obs), reset_info

    def _mask(self, obs: PyTree, info: dict[str, Any], dead: Bool[np.ndarray, " B"]) -> Bool[np.ndarray, "B A"] | None:
        if self._mask_in_obs:
            mask = obs["action_mask"]
        elif "action_mask" in info:
            given = info.get("_action_mask", np.ones(self.num_envs, bool))
            mask = np.where(given[:, None], np.stack(info["action_mask"]), 1)
        elif self._mask_method is not None:
            mask = np.stack(self._mask_method())
        else:
            return None
        length = flatdim(self._action_space)
        if mask.shape != (self.num_envs, length):
            raise EnvError(
                f"{self}: action_mask has shape {mask.shape}; it must be {(self.num_envs, length)}, flat over {self._action_space}."
            )
        mask = mask.astype(bool)
        stuck = ~mask_allows(self._action_space, mask) & ~dead
        if stuck.any():
            i = int(np.flatnonzero(stuck)[0])
            raise EnvError(f"{self}: action_mask of environment {i} at step {self._token} is {mask[i]}, which allows nothing.")
        return mask

    def _drop_mask(self, obs: Any) -> Any:
        """Without the mask, and without the dict if nothing else is in it. Takes an observation or its space."""
        if not self._mask_in_obs:
            return obs
        rest = {name: part for name, part in obs.items() if name != "action_mask"}
        if len(rest) == 1:
            return next(iter(rest.values()))
        return Dict(rest) if isinstance(obs, Dict) else rest

    def _check_step(self, reward: Any, terminated: Any, truncated: Any) -> None:
        for name, x, kinds in (("reward", reward, "fiu"), ("terminated", terminated, "b"), ("truncated", truncated, "b")):
            if not isinstance(x, np.ndarray) or x.shape != (self.num_envs,) or x.dtype.kind not in kinds:
                need, got = "bool" if kinds == "b" else "float", np.asarray(x)
                raise EnvError(
                    f"{self}: {name} of step {self._token} is {type(x).__name__} {got.dtype}{list(got.shape)}; it must be a NumPy "
                    f"array {need}[{self.num_envs}]."
                )

    def _shown(self, obs: PyTree) -> PyTree:
        """Our copy of a batch of observations."""
        shown = shown_obs(self._obs_space, obs)
        for x, shape in zip(jax.tree.leaves(shown), self._obs_shapes, strict=True):
            if x.shape != shape:
                raise EnvError(f"{self}: observation of step {self._token} has shape {x.shape}; it must be {shape}, as its space says.")
        return shown

    def _check_finite(self, obs: PyTree, reward: Any = None) -> None:
        for name, tree in (("observation", obs), ("reward", reward)):
            for x in jax.tree.leaves(tree):
                if x.dtype.kind == "f" and not np.isfinite(x).all():
                    i = int(np.argwhere(~np.isfinite(x))[0][0])
                    raise EnvError(
                        f"{self}: {name} of environment {i} at step {self._token} is {x[i]}; it must be finite. Find where the "
                        f"environment divides by zero or overflows."
                    )


def _refuse_tracing(verb: str, args: PyTree) -> None:
    if any(isinstance(x, Tracer) for x in jax.tree.leaves(args)):
        raise EnvError(
            f"GymVecEnv.{verb} runs Python code on the host and cannot be traced by jit, vmap or scan. Call it from an ordinary "
            f"loop, or use an in-graph environment: rl.VecEnv(rl.make('CartPole'), num_envs=4)."
        )
