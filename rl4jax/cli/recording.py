"""A GIF of an episode of a run."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray, UInt8

from rl4jax.core.errors import EnvError
from rl4jax.core.video import Act, record, write_gif

from .environment import make_picture_env

MOST_FRAMES = 250  # ten seconds; of a longer episode every second one is shown, or every third
MANY_FRAMES, FAST, SLOW, HOLD = 50, 4, 25, 100  # hundredths of a second: short episodes go slowly, and the end stays for a while


def record_episode(env_name: str, act: Act, out: Path, *, key: PRNGKeyArray, max_steps: int = 1000, sample: bool = False) -> int:
    """Play one episode, write it, and return how many pictures it has."""
    return write_episode(out, play(env_name, act if sample else greedy(act), key=key, max_steps=max_steps))


def play(env_name: str, act: Act, *, key: PRNGKeyArray, max_steps: int) -> list[UInt8[np.ndarray, "H W 3"]]:
    """The pictures of one episode."""
    import gymnasium

    env: Any = None
    try:
        env = make_picture_env(env_name)
        return record(env, act, key=key, max_steps=max_steps)
    except (gymnasium.error.Error, ImportError, NotImplementedError) as error:  # its renderer is missing, or it has none
        raise EnvError(f"{env_name} cannot be drawn: {error}{'' if str(error).endswith('.') else '.'}") from error
    finally:
        if isinstance(env, gymnasium.Env):
            env.close()


def write_episode(out: Path, frames: list[UInt8[np.ndarray, "H W 3"]]) -> int:
    """Write a GIF that can be looked at, and return how many pictures it has."""
    shown = frames[::-1][:: -(-len(frames) // MOST_FRAMES)][::-1]  # the last one included
    delay = FAST if len(shown) >= MANY_FRAMES else SLOW
    write_gif(out, [*shown, *[shown[-1]] * (HOLD // delay)], delay)
    return len(shown)


def greedy(act: Act) -> Act:
    """The same agent, never at random."""

    def best(obs: Any, carry: Any = None, mask: Any = None, *, key: PRNGKeyArray | None = None) -> tuple[Any, Any]:
        return act(obs, carry, mask)

    return best
