"""From an observation of any space to one vector: each part by what suits it."""

from collections.abc import Sequence

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from rl4jax.core.errors import EnvError
from rl4jax.core.spaces import StaticSpace, flatten, parts_of

from .cnn import CNN
from .set_encoder import SetEncoder

MASK = "_mask"
UNBOUNDED = 2.0**30  # from here on a bound is what the dtype can hold, and says nothing of the image


class MultiEncoder(eqx.Module):
    """One vector from an observation, the features of its parts side by side in the order of the space.

    | part | becomes |
    |---|---|
    | `Box` of three axes | an image, through a `CNN`, integers divided by the largest bound of the space |
    | `Box` `[S, F]` called name, beside a mask `[S]` called name_mask | a set of S entities, through a `SetEncoder`; true = there |
    | `Box` `[S, F]` whose name is in `entities` | a set of which all are there |
    | all others | flat, discrete ones one-hot |

    A mask is a `MultiBinary` or a `Box` of integers or bools; without one, a matrix may be a board or the last few frames, whose order
    counts, so it is no set unless `entities` says so. Images of integers that the space does not bound are taken as they are. The parts
    of a `Tuple` are called "0", "1" and so on; a space that is neither `Dict` nor `Tuple` is one part, called "". What is nested deeper
    is flat.
    """

    cnns: dict[str, CNN]
    sets: dict[str, SetEncoder]
    space: StaticSpace = eqx.field(static=True)

    def __init__(self, space: gymnasium.Space, entities: Sequence[str] = (), d_image: int = 512, d_entity: int = 64, *, key: PRNGKeyArray):
        parts = parts_of(space)
        images = [name for name, part in parts.items() if is_image(part)]
        _check_entities(parts, entities)
        sets = [name for name in parts if name in entities or _has_mask(parts, name)]
        keys = iter(jax.random.split(key, max(len(images) + len(sets), 1)))
        self.cnns = {name: CNN(parts[name].shape, d_image, high=_largest(parts[name]), key=next(keys)) for name in images}
        self.sets = {name: SetEncoder(parts[name].shape[1], d_entity, key=next(keys)) for name in sets}
        self.space = StaticSpace(space)

    @property
    def d_out(self) -> int:
        """How many features come out."""
        made = sum(cnn.linear.bias.size for cnn in self.cnns.values()) + sum(encoder.d_out for encoder in self.sets.values())
        return made + sum(int(spaces.flatdim(part)) for part in self._flat_parts().values())

    def __call__(self, obs: PyTree) -> Float[Array, " D"]:
        parts, flat = parts_of(self.space.space), self._flat_parts()
        seen = parts_of(obs)
        vectors = []
        for name in parts:
            if name in self.cnns:
                vectors.append(self.cnns[name](seen[name]))
            elif name in self.sets:
                mask = seen[name + MASK].astype(bool) if _has_mask(parts, name) else None
                vectors.append(self.sets[name](seen[name].astype(jnp.float32), mask))
            elif name in flat:
                vectors.append(flatten(flat[name], seen[name]))
        return jnp.concatenate(vectors) if len(vectors) > 1 else vectors[0]

    def _flat_parts(self) -> dict[str, gymnasium.Space]:
        """What is neither an image nor a set nor the mask of one."""
        known = {*self.cnns, *self.sets, *(name + MASK for name in self.sets)}
        return {name: part for name, part in parts_of(self.space.space).items() if name not in known}


def is_image(space: gymnasium.Space) -> bool:
    """Whether this part of an observation is a picture."""
    return isinstance(space, spaces.Box) and len(space.shape) == 3


def _largest(space: spaces.Box) -> float:
    """The largest bound on either side, to divide integers by; 1 if there is none."""
    bounds = np.abs(np.stack([space.low, space.high]).astype(np.float64))
    return max(1.0, float(bounds.max(initial=0.0, where=bounds < UNBOUNDED)))


def _has_mask(parts: dict[str, gymnasium.Space], name: str) -> bool:
    """Whether this is a matrix with a mask of its rows beside it."""
    part, mask = parts[name], parts.get(name + MASK)
    if not isinstance(part, spaces.Box) or not isinstance(mask, spaces.Box | spaces.MultiBinary):
        return False
    return len(part.shape) == 2 and mask.shape == part.shape[:1] and np.dtype(mask.dtype).kind in "biu"


def _within_0_and_1(space: gymnasium.Space) -> bool:
    """Whether a mask may be meant by it, of whatever shape and dtype."""
    box = isinstance(space, spaces.Box) and bool((space.low >= 0).all() and (space.high <= 1).all())
    return box or isinstance(space, spaces.MultiBinary)


def _check_entities(parts: dict[str, gymnasium.Space], entities: Sequence[str]) -> None:
    """Raise unless each of these names a Box `[S, F]`, and what is called the mask of one fits it."""
    if isinstance(entities, str):
        raise EnvError(f"MultiEncoder: entities = {entities!r} must be a sequence of names. Use entities=({entities!r},).")
    for name in entities:
        if name not in parts:
            raise EnvError(f"MultiEncoder: entities names {name!r}, but the observation has {sorted(parts)}.")
        part = parts[name]
        if not isinstance(part, spaces.Box) or len(part.shape) != 2:
            raise EnvError(f"MultiEncoder: {name!r} is {part}; a set of entities must be a Box of shape [S, F], one row per entity.")
    for name, part in parts.items():
        if not isinstance(part, spaces.Box) or len(part.shape) != 2 or name + MASK not in parts or _has_mask(parts, name):
            continue
        if name in entities or _within_0_and_1(parts[name + MASK]):
            raise EnvError(
                f"MultiEncoder: {name + MASK!r} is {parts[name + MASK]}, but to mask {name!r} it must be MultiBinary({part.shape[0]}), "
                f"true = there. Or rename it."
            )
