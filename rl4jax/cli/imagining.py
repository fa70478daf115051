"""A GIF of an episode with what a world model imagined of it: above what happened, below what the model thought would."""

import functools
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import PRNGKeyArray, UInt8

from rl4jax.algo.dreamer import Agent, Decoder
from rl4jax.core.env import AbstractEnv
from rl4jax.core.errors import ConfigError, EnvError
from rl4jax.envs import draw
from rl4jax.envs.registry import BUILT_IN
from rl4jax.nn.obs_encoder import split_obs, split_space
from rl4jax.nn.rssm import Latent

from .algorithms import built_in_twin
from .environment import make_picture_env
from .policy import make_policy
from .recording import play, write_episode
from .run import AbstractRun

WATCHED = 5  # steps that the model sees before it is on its own; in short episodes a third
LEAST_SIDE = 160  # pixels of a picture that is shown
BAR = 20
SEEING, IMAGINING, OVER = (draw.MUTED, "seen"), (draw.RED, "imagined"), (draw.INK, "imagined: over")  # the bar between the two


def record_imagined(run: AbstractRun, agent: Any, out: Path, *, key: PRNGKeyArray, max_steps: int = 200, sample: bool = False) -> int:
    """Play an episode, let the model imagine it after the first steps, by the same actions, write both, and return how many pictures."""
    if not isinstance(agent, Agent):
        raise ConfigError(f"record --imagine: {run.path} is a run of {run.algorithm.name}, which has no world model. Train with dreamer.")
    if not isinstance(agent.representation, Decoder):
        raise ConfigError(f"record --imagine: {run.path} has no decoder to paint with. Train with --representation decoder.")
    space = run.env.single_observation_space
    env = None if split_space(space)[0] else drawing_env(run.options.env, space)  # pictures need no drawing
    policy, seen = make_policy(agent, run.env), []

    def act(obs: Any, carry: Any = None, mask: Any = None, *, key: PRNGKeyArray | None = None) -> tuple[Any, Any]:
        action, carry = policy(obs, carry, mask, key=key if sample else None)
        seen.append((obs, carry))
        return action, carry

    frames = play(run.options.env, act, key=key, max_steps=max_steps)
    latents, vectors = jax.tree.map(lambda *x: jnp.stack(x), *[memory for _, memory in seen])
    imagined = follow(agent, latents, vectors)
    if env is None:
        channels_last = {name: encoder.channels_last for name, encoder in agent.encoder.pixels.items()}
        above = [as_picture(split_obs(space, jax.tree.map(jnp.asarray, obs))[0], channels_last) for obs, _ in seen]
        below = [as_picture(agent.representation.decoder.images(one), channels_last) for one in each_of(imagined)]
    else:
        above = frames[: len(seen)]
        numbers = [agent.representation.decoder.numbers(one).reshape(space.shape) for one in each_of(imagined)]
        below = [drawn(env, obs, t) for t, obs in enumerate(numbers)]
    bars = [SEEING if t <= watched(len(seen)) else IMAGINING for t in range(len(seen))]
    ends = [t for t, bar in enumerate(bars) if bar is IMAGINING and float(agent.goes_on_logit(imagined.features[t])) < 0]
    bars = [OVER if ends and t >= ends[0] else bar for t, bar in enumerate(bars)]
    return write_episode(out, [with_bar(*parts) for parts in zip(above, below, bars, strict=True)])


@eqx.filter_jit
def follow(agent: Agent, latents: Latent, vectors: Any) -> Latent:
    """The latents of an episode `[T]`: what was seen at first, then what follows from the actions alone, the most likely each time."""
    times, alone = jnp.arange(len(vectors)), watched(len(vectors))

    def one(latent, now):
        t, seen, before = now
        ahead = agent.rssm.imagine(latent, before)
        latent = jax.tree.map(lambda x, y: jnp.where(t <= alone, x, y), seen, ahead)
        return latent, latent

    before = jnp.concatenate([jnp.zeros_like(vectors[:1]), vectors[:-1]])
    return jax.lax.scan(one, agent.rssm.initial(), (times, latents, before))[1]


def watched(num_steps: int) -> int:
    return min(WATCHED, num_steps // 3)


def each_of(latents: Latent) -> list[Latent]:
    return [jax.tree.map(lambda x, t=t: x[t], latents) for t in range(len(latents.deter))]


def as_picture(images: dict[str, Any], channels_last: dict[str, bool]) -> UInt8[np.ndarray, "H W 3"]:
    """The pictures of an observation side by side, enlarged if they are small. Of a stack of pictures the last one is shown."""
    shown = []
    for name, image in images.items():
        pixels = np.asarray(image) if channels_last[name] else np.moveaxis(np.asarray(image), 0, -1)
        pixels = pixels if pixels.shape[-1] == 3 else np.repeat(pixels[..., -1:], 3, -1)
        times = max(1, -(-LEAST_SIDE // pixels.shape[0]))
        shown.append(np.uint8(255 * np.clip(pixels, 0, 1)).repeat(times, 0).repeat(times, 1))
    tallest = max(x.shape[0] for x in shown)
    return np.concatenate([np.pad(x, [(0, tallest - x.shape[0]), (0, 0), (0, 0)]) for x in shown], 1)


def drawing_env(name: str, space: Any) -> AbstractEnv:
    """An environment that can draw what an observation shows; of Gymnasium's, our twin."""
    twin = built_in_twin(name)
    env = make_picture_env(twin if twin in BUILT_IN else name)
    if not isinstance(env, AbstractEnv) or not isinstance(space, spaces.Box):
        raise EnvError(f"record --imagine: observations of {name} are {space}, which nothing here can draw. Train on pictures.")
    return env


def drawn(env: AbstractEnv, obs: Any, t: int) -> UInt8[np.ndarray, "H W 3"]:
    """An observation as a picture, by `state_from_obs` and `render` of its environment. What is not finite is drawn as 0."""
    state: Any = env.state_from_obs(jnp.nan_to_num(obs))
    return env.render(eqx.tree_at(lambda state: state.t, state, jnp.int32(t)) if "t" in vars(state) else state)


def with_bar(above: UInt8[np.ndarray, "H W 3"], below: UInt8[np.ndarray, "H W 3"], bar: tuple[str, str]) -> Any:
    """One above the other, and what the lower one is in between. Gymnasium's pictures may be wider than ours: then ours get a margin."""
    width = max(above.shape[1], below.shape[1])
    above, below = (np.pad(x, [(0, 0), (0, width - x.shape[1]), (0, 0)], constant_values=255) for x in (above, below))
    return np.concatenate([above, words(width, *bar), below])


@functools.cache
def words(width: int, colour: str, text: str) -> UInt8[np.ndarray, "H W 3"]:
    canvas = draw.Canvas(width, BAR, origin=(0, BAR), scale=1)
    canvas.box((0, 0), (width, BAR), colour)
    canvas.text((width / 2, BAR / 2), text, size=12, fill=draw.PAPER)
    return canvas.pixels()
