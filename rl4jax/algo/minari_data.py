"""Demonstrations from Minari, the collection of offline datasets (https://minari.farama.org)."""

from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from rl4jax.core.errors import ConfigError, missing_extra
from rl4jax.core.gym_spaces import obs_reader, shown_action_space
from rl4jax.core.spaces import struct_of

from .demonstrations import Demonstrations, from_arrays
from .epochs import concatenate


def from_minari(dataset: Any) -> Demonstrations:
    """All steps of a Minari dataset: its id, if it is on this machine, or the dataset itself, also one that was filtered.

    Observations and actions are as `rl.GymVecEnv` shows them: counted from 0, in 32 bits. A mask is found in `obs["action_mask"]` or
    `infos["action_mask"]`. The last observation of an episode is left out: nothing was done there.
    """
    try:
        import minari
    except ImportError as error:
        raise missing_extra("bc.from_minari", extra="minari") from error
    if isinstance(dataset, str):
        try:
            dataset = minari.load_dataset(dataset)
        except FileNotFoundError as error:
            raise ConfigError(
                f"bc.from_minari: dataset = {dataset!r} is not on this machine. Give minari.load_dataset({dataset!r}, download=True)."
            ) from error
    read_obs, read_action = obs_reader(dataset.observation_space), obs_reader(dataset.action_space)
    form = struct_of(shown_action_space(dataset.action_space))
    episodes = []
    for episode in dataset.iterate_episodes():
        length = len(episode)
        seen = jax.tree.map(lambda x, n=length: np.asarray(x)[:n], episode.observations)
        obs, mask = _without_mask(read_obs(seen), episode.infos or {}, length)
        # A MultiBinary is shown as choices between two.
        action = jax.tree.map(lambda x, one, n=length: x.reshape(n, *one.shape).astype(one.dtype), read_action(episode.actions), form)
        episodes.append(Demonstrations(obs, action, mask))
    return from_arrays(*concatenate("bc.from_minari: episodes", episodes))


def _without_mask(obs: PyTree, infos: dict[str, Any], length: int) -> tuple[PyTree, Any]:
    """The observations without a mask among them, and the mask, as `rl.GymVecEnv` has them."""
    if isinstance(obs, dict) and "action_mask" in obs:
        rest = {name: part for name, part in obs.items() if name != "action_mask"}
        return next(iter(rest.values())) if len(rest) == 1 else rest, obs["action_mask"].astype(bool)
    mask = infos.get("action_mask")
    return obs, None if mask is None else np.asarray(mask)[:length].astype(bool)
