"""Pictures of an agent at work."""

import os
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import gymnasium
import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree, UInt8
from PIL import Image

from .env import AbstractEnv
from .errors import EnvError, ShapeError, require
from .gym_export import to_gymnasium
from .gym_spaces import own_action, shown_action_space, shown_obs
from .spaces import random_action
from .vec_env import VecEnv


@runtime_checkable
class Act(Protocol):
    """How an agent acts: one observation in, one action out, with the recurrent carry handed back. Greedy without a key."""

    def __call__(self, obs: PyTree, carry: Any = None, mask: Any = None, *, key: PRNGKeyArray | None = None) -> tuple[PyTree, Any]: ...


def random_act(action_space: gymnasium.Space) -> Act:
    """An agent that plays uniformly random legal actions."""

    def act(obs: PyTree, carry: Any = None, mask: Any = None, *, key: PRNGKeyArray | None = None) -> tuple[PyTree, Any]:
        if key is None:
            raise ValueError("random_act: key = None, but a random player needs one. Call act(obs, key=jax.random.key(0)).")
        return random_action(action_space, key, mask), carry

    return act


def record(
    env: AbstractEnv | VecEnv | gymnasium.Env, act: Act, *, key: PRNGKeyArray, max_steps: int = 1000
) -> list[UInt8[np.ndarray, "H W 3"]]:
    """Play one episode and return its pictures, the first and the last included.

    A Gymnasium environment must be made with `render_mode="rgb_array"`. A `VecEnv` stands for the environment inside it.
    """
    require(max_steps > 0, "record: max_steps", max_steps, "a positive integer")
    inner = env.env if isinstance(env, VecEnv) else env
    shell = to_gymnasium(inner, render_mode="rgb_array") if isinstance(inner, AbstractEnv) else inner
    if not isinstance(shell, gymnasium.Env):
        raise EnvError(f"record: env is a {type(env).__name__}; give an AbstractEnv, a VecEnv or a gymnasium.Env.")
    if shell.render_mode != "rgb_array":
        raise EnvError(f"record: {env} has render_mode = {shell.render_mode!r}. Make it with render_mode='rgb_array'.")

    seed_key, play_key = jax.random.split(key)
    obs, info = shell.reset(seed=int(jax.random.randint(seed_key, (), 0, np.iinfo(np.int32).max)))
    frames, carry = [shell.render()], None
    action_space = shown_action_space(shell.action_space)
    for step_key in jax.random.split(play_key, max_steps):
        # One environment is a batch of one: the same spaces, copies and checks as in GymVecEnv.
        batch = shown_obs(shell.observation_space, jax.tree.map(lambda x: np.asarray(x)[None], obs))
        mask = None if "action_mask" not in info else np.asarray(info["action_mask"], bool)
        action, carry = act(jax.tree.map(lambda x: x[0], batch), carry, mask, key=step_key)
        action = own_action(shell.action_space, action_space, jax.tree.map(lambda x: np.asarray(x)[None], action), 1)
        obs, _, terminated, truncated, info = shell.step(jax.tree.map(lambda x: x[0], action))
        frames.append(shell.render())
        if terminated or truncated:
            break
    return [np.asarray(frame) for frame in frames]


def write_gif(path: str | os.PathLike, frames: Sequence[UInt8[np.ndarray, "H W 3"]], delay: int = 4) -> None:
    """Write frames as an endless GIF, `delay` hundredths of a second each. No frames, no file."""
    require(delay > 0, "write_gif: delay", delay, "a positive number of centiseconds", "Most players show 2 or less as 10.")
    for i, frame in enumerate(frames):
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape != (*frames[0].shape[:2], 3):
            raise ShapeError(
                f"write_gif: frames[{i}] is {frame.dtype} {frame.shape}; all must be uint8 [H, W, 3] of the size of the first, "
                f"{frames[0].shape}."
            )
    if not len(frames):
        return
    images = [Image.fromarray(frame) for frame in frames]
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    images[0].save(path, format="GIF", save_all=True, append_images=images[1:], duration=10 * delay, loop=0)
