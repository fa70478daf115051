"""Pictures of an agent at work."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from jaxtyping import PRNGKeyArray, PyTree, UInt8
from PIL import Image

from .env import AbstractEnv
from .errors import EnvError, ShapeError, is_count, require
from .gym_export import to_gymnasium
from .gym_spaces import batch_of
from .gym_vec_env import GymVecEnv
from .spaces import clip_action, random_action
from .vec_env import VecEnv

_LONGEST = 65535  # the longest delay of a GIF frame, in hundredths of a second


@runtime_checkable
class Act(Protocol):
    """How an agent acts: one observation in, one action out, with the recurrent carry handed back. Greedy without a key."""

    def __call__(self, obs: PyTree, carry: Any = None, mask: Any = None, *, key: PRNGKeyArray | None = None) -> tuple[PyTree, Any]: ...


def random_act(action_space: gymnasium.Space) -> Act:
    """An agent that plays uniformly random legal actions."""
    if not isinstance(action_space, gymnasium.Space):
        raise TypeError(f"random_act: action_space is a {type(action_space).__name__}; give the environment's action_space.")

    def act(obs: PyTree, carry: Any = None, mask: Any = None, *, key: PRNGKeyArray | None = None) -> tuple[PyTree, Any]:
        if key is None:
            raise ValueError("random_act: key = None, but a random player needs one. Call act(obs, key=jax.random.key(0)).")
        return random_action(action_space, key, mask), carry

    return act


def record(
    env: AbstractEnv | VecEnv | gymnasium.Env, act: Act, *, key: PRNGKeyArray, max_steps: int = 1000
) -> list[UInt8[np.ndarray, "H W 3"]]:
    """Play one episode and return its pictures, the first and the last included. Continuous actions are clipped to their box.

    A Gymnasium environment must be made with `render_mode="rgb_array"`. A `VecEnv` stands for the environment inside it.
    """
    require(max_steps > 0, "record: max_steps", max_steps, "a positive integer")
    inner = env.env if isinstance(env, VecEnv) else env
    act = getattr(act, "shown", act)  # of one that `load_policy` gave for Gymnasium's own spaces
    shell = to_gymnasium(inner, render_mode="rgb_array") if isinstance(inner, AbstractEnv) else inner
    if not isinstance(shell, gymnasium.Env):
        hint = " Make one environment of the same kind: gymnasium.make(id, render_mode='rgb_array')." if isinstance(env, GymVecEnv) else ""
        raise EnvError(f"record: env is a {type(env).__name__}; give an AbstractEnv, a VecEnv or a gymnasium.Env.{hint}")
    if shell.render_mode != "rgb_array":
        raise EnvError(f"record: {env} has render_mode = {shell.render_mode!r}. Make it with render_mode='rgb_array'.")

    # A batch of one, so that spaces, masks and checks are those of training. NEXT_STEP leaves the end to be looked at.
    host = GymVecEnv(SyncVectorEnv([lambda: shell], autoreset_mode=AutoresetMode.NEXT_STEP))
    reset_key, play_key = jax.random.split(key)
    state, obs = host.reset(reset_key)
    frames, carry = [np.array(shell.render())], None
    for step_key in jax.random.split(play_key, max_steps):
        mask = None if state.mask is None else state.mask[0]
        answer = act(jax.tree.map(lambda x: x[0], obs), carry, mask, key=step_key)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise EnvError(f"record: act returned {type(answer).__name__}; act(obs, carry, mask, *, key) must return (action, carry).")
        action, carry = answer
        state, step = host.step(state, clip_action(host.single_action_space, batch_of(host.single_action_space, [action])))
        obs = step.obs
        frames.append(np.array(shell.render()))
        if step.terminated[0] or step.truncated[0]:
            break
    return frames


def write_gif(path: str | os.PathLike, frames: Sequence[UInt8[np.ndarray, "H W 3"]], delay: int = 4) -> None:
    """Write frames as an endless GIF, `delay` hundredths of a second each. No frames, no file."""
    require(is_count(delay) and delay <= _LONGEST, "write_gif: delay", delay, f"a whole number of centiseconds from 1 to {_LONGEST}")
    require(isinstance(path, str | os.PathLike) and os.fspath(path).endswith(".gif"), "write_gif: path", path, "a path ending in .gif")
    frames = [np.asarray(frame) for frame in frames]
    for i, frame in enumerate(frames):
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape != (*frames[0].shape[:2], 3):
            raise ShapeError(
                f"write_gif: frames[{i}] is {frame.dtype} {frame.shape}; all must be uint8 [H, W, 3] of the size of the first, "
                f"{frames[0].shape}."
            )
    if not frames:
        return
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".gif.part")
    images, delays = _still_frames_once(frames, delay)
    images[0].save(unfinished, format="GIF", save_all=True, append_images=images[1:], duration=delays, loop=0)
    unfinished.replace(path)


def _still_frames_once(frames: list[np.ndarray], delay: int) -> tuple[list[Image.Image], list[int]]:
    """Each run of equal frames as one, shown for as long (in milliseconds), up to the longest delay that the format knows."""
    starts = [i for i, frame in enumerate(frames) if i == 0 or (frame != frames[i - 1]).any()]
    lengths = [end - start for start, end in zip(starts, [*starts[1:], len(frames)], strict=True)]
    return [Image.fromarray(frames[i]) for i in starts], [10 * min(length * delay, _LONGEST) for length in lengths]
