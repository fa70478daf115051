"""Gymnasium environments behind the same `reset` and `step` as ours, run by Python on the host."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from jaxtyping import Bool, Int, PRNGKeyArray, PyTree

from .contract import check_key
from .errors import EnvError
from .gym_make import autoreset_mode, end_workers, make_vector_env
from .gym_masks import MaskReader
from .gym_spaces import action_writer, batch_of, obs_reader, shown_action_space, shown_obs_space
from .host_arrays import arrays_of, map_arrays, read_only
from .number import is_concrete
from .spaces import struct_of
from .vec_env import VecStep

_LARGEST = np.iinfo(np.int32).max
_TOKENS = itertools.count()  # of all host environments together: a state of one is never taken for a state of another

_CANNOT_BE_TRACED = (
    "GymVecEnv.{} runs Python code on the host and cannot be traced by jit, vmap or scan. Call it from an ordinary loop, or use an "
    "in-graph environment: rl.VecEnv(rl.make('CartPole'), num_envs=4)."
)


class GymState(NamedTuple):
    """What the caller holds of a host environment, whose real state lives in Python."""

    token: Int[Any, ""]  # which step of which environment this is: an old state cannot be stepped again
    dead: Bool[Any, " B"]  # the next step only resets these (NEXT_STEP mode)
    mask: Bool[Any, "B A"] | None


class GymVecEnv:
    """Any Gymnasium environments as one vector environment of ours.

    `env` is a Gymnasium id, a function that makes a `gymnasium.Env`, or a ready `gymnasium.vector.VectorEnv` (EnvPool's
    included). The first two are run one after another, or each in a spawned process of its own with `asynchronous=True`;
    then the calling script needs the usual `if __name__ == "__main__":`.

    Action masks are taken from `info["action_mask"]`, from `obs["action_mask"]` (and then removed from the observation) or
    from a method `action_masks()`. Everything a step returns is a copy. Of a ready vector environment in SAME_STEP mode that
    is not Gymnasium's `SyncVectorEnv` we must believe the `final_obs` it gives.
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
        self._seeded_when_made = any(base.__module__.startswith("envpool.") for base in type(self.envs.unwrapped).__mro__)
        self._obs_space = self.envs.single_observation_space
        self._obs_shapes = [(self.num_envs, *x.shape) for x in jax.tree.leaves(struct_of(self._obs_space))]
        self._action_space = shown_action_space(self.envs.single_action_space)
        self._read_obs = obs_reader(self._obs_space)
        self._write_action = action_writer(self.envs.single_action_space, self._action_space, self.num_envs)
        self.masks = MaskReader(self.envs, self._action_space)
        self._shown_obs_space = self.masks.drop(shown_obs_space(self._obs_space))
        self._all, self._none = read_only(np.ones(self.num_envs, bool)), read_only(np.zeros(self.num_envs, bool))
        self._token = -1
        self._step = 0  # since the last reset, for messages

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
        if not is_concrete(key):
            raise EnvError(_CANNOT_BE_TRACED.format("reset"))
        check_key(key, "GymVecEnv.reset")
        if self.envs.closed:
            raise EnvError(f"GymVecEnv.reset: {self} is closed. Make a new one.")
        seed = None if self._seeded_when_made else int(jax.random.randint(key, (), 0, _LARGEST - self.num_envs))
        obs, info = self._host_call(self.envs.reset, seed=seed)
        self._step = 0
        obs = self._shown(obs)
        self._check_finite(obs)
        return self._state(self.masks.read(obs, info), self._none), self.masks.drop(obs)

    def step(self, state: GymState, action: PyTree, key: PRNGKeyArray | None = None) -> tuple[GymState, VecStep]:
        """Move all environments on by one action each. The key is not used: host environments draw from their own seeds."""
        if self.envs.closed:
            raise EnvError(f"GymVecEnv.step: {self} is closed. Make a new one.")
        try:
            is_newest, own_action = int(state.token) == self._token, self._write_action(action)
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
            raise EnvError(_CANNOT_BE_TRACED.format("step")) from error
        if not is_newest:
            raise EnvError(
                "GymVecEnv.step: this is not the newest state of this environment. A host environment cannot go back: always "
                "step with the state that its last reset or step returned. rl.evaluate resets what it is given: evaluate in another one. "
                "To go on, begin new episodes: state._replace(playing=rl.collect.begin(state.policy, env, key=key))."
            )
        obs, reward, terminated, truncated, info = self._host_call(self.envs.step, own_action)
        self._step += 1
        self._check_step(reward, terminated, truncated)
        with np.errstate(over="ignore"):  # found, and named, below
            reward = reward.astype(np.float32)
        terminated, truncated = terminated.copy(), truncated.copy()

        ended = terminated | truncated
        some_ended = np.count_nonzero(ended) > 0  # many times faster than any()
        obs = final_obs = self._shown(obs)
        mask = self.masks.read(obs, info)
        if some_ended and self._mode is AutoresetMode.SAME_STEP:
            final_obs = self._final_obs(obs, info, ended)
        if some_ended and self._mode is AutoresetMode.DISABLED:
            fresh, info = self._host_call(self.envs.reset, options={"reset_mask": ended.copy()})
            fresh = self._shown(fresh)
            mask = self.masks.merge(mask, self.masks.read(fresh, info), where=ended)
            obs = _with_rows(obs, ended, jax.tree.map(lambda x: x[ended], fresh))
        self._check_finite(final_obs, reward)
        if obs is not final_obs:
            self._check_finite(obs)

        valid = self._all if state.dead is self._none else ~np.asarray(state.dead)
        state = self._state(mask, ended if some_ended and self._mode is AutoresetMode.NEXT_STEP else self._none)
        drop = self.masks.drop
        return state, VecStep(drop(obs), reward, terminated, truncated, drop(final_obs), valid)

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

    # Asking the environment

    def _host_call(self, function: Callable, *args: Any, **kwargs: Any) -> Any:
        """Call the environment. From here on older states are refused, also if something goes wrong."""
        self._token = next(_TOKENS) % _LARGEST
        try:
            return function(*args, **kwargs)
        except (EOFError, ConnectionError) as error:
            codes = end_workers(self.envs)
            raise EnvError(f"{self}: a worker process died in step {self._step}; exit codes {codes}. Make a new one.") from error
        except Exception:
            end_workers(self.envs)  # Gymnasium ends the one that raised and cannot start it again
            raise

    def _state(self, mask: Bool[np.ndarray, "B A"] | None, dead: Bool[np.ndarray, " B"]) -> GymState:
        if mask is not None:
            self.masks.check(mask, ~dead, self._step)
        return GymState(np.int32(self._token), dead, mask)

    # Reading what it returned

    def _shown(self, obs: PyTree) -> PyTree:
        """Our copy of a batch of observations. Nobody can write into it: several may hold it."""
        shown = self._read_obs(obs)
        for x, shape in zip(arrays_of(shown), self._obs_shapes, strict=True):
            if x.shape != shape:
                raise EnvError(f"{self}: observation of step {self._step} has shape {x.shape}; it must be {shape}, as its space says.")
        return map_arrays(read_only, shown)

    def _final_obs(self, obs: PyTree, info: dict[str, Any], ended: Bool[np.ndarray, " B"]) -> PyTree:
        """SAME_STEP keeps the last observations in `info["final_obs"]`: put them where their episodes ended."""
        if "final_obs" not in info:
            raise EnvError(
                f"{self}: its autoreset mode is SAME_STEP and an episode ended, but info has no 'final_obs' (it has "
                f"{sorted(info)}). The environment must keep the last observation there."
            )
        last = info["final_obs"]
        if isinstance(last, np.ndarray) and last.dtype == object:  # one entry per environment, None where none ended
            last = batch_of(self._obs_space, list(last[ended]))
        else:  # a whole batch
            last = jax.tree.map(lambda x: np.asarray(x)[ended], last)
        return _with_rows(obs, ended, self._read_obs(last))

    def _check_step(self, reward: Any, terminated: Any, truncated: Any) -> None:
        for name, x, kinds in (("reward", reward, "fiu"), ("terminated", terminated, "b"), ("truncated", truncated, "b")):
            if not isinstance(x, np.ndarray) or x.shape != (self.num_envs,) or x.dtype.kind not in kinds:
                need, got = "bool" if kinds == "b" else "float", np.asarray(x)
                raise EnvError(
                    f"{self}: {name} of step {self._step} is {type(x).__name__} {got.dtype}{list(got.shape)}; it must be a NumPy "
                    f"array {need}[{self.num_envs}]."
                )

    def _check_finite(self, obs: PyTree, reward: np.ndarray | None = None) -> None:
        for name, tree in (("observation", obs), ("reward", reward)):
            for x in arrays_of(tree):
                if x.dtype.kind == "f" and np.count_nonzero(np.isfinite(x)) < x.size:
                    i = int(np.argwhere(~np.isfinite(x))[0][0])
                    raise EnvError(
                        f"{self}: {name} of environment {i} at step {self._step} is {x[i]}; it must be finite, as {x.dtype} too. Find "
                        f"where the environment divides by zero or overflows."
                    )


def _with_rows(batch: PyTree, where: Bool[np.ndarray, " B"], rows: PyTree) -> PyTree:
    """A copy of the batch in which the marked rows are replaced."""
    batch = jax.tree.map(np.copy, batch)
    for target, value in zip(jax.tree.leaves(batch), jax.tree.leaves(rows), strict=True):
        target[where] = value
    return jax.tree.map(read_only, batch)
