"""Rings of whole streams, one for each environment, from which stretches of steps are drawn: what world models learn from."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, PRNGKeyArray, PyTree, UInt32

from rl4jax.core.contract import check_key
from rl4jax.core.errors import ConfigError, ShapeError, is_count, require
from rl4jax.core.number import is_concrete

from .layout import check_capacity, check_rewritten, check_steps, check_stream, layout_of
from .stretches import Index, anywhere, fresh_first, inside, longest, num_stretches


class Sequences(NamedTuple):
    """Stretches of steps, time first, and where they are."""

    items: PyTree[Array]  # [L, N, ...]
    rows: Int[Any, "L N"]  # slots of the steps
    streams: Int[Any, " N"]


class SequenceReplay(NamedTuple):
    """The last `capacity` steps of each of B streams, on the device. Items are any NamedTuple with a bool `is_first`.

    A stretch may begin anywhere, also in the middle of an episode, and go on into the next one, where `is_first` says so; or with
    `within_episodes` it stays inside of one.

    >>> Item = NamedTuple("Item", [("x", Any), ("is_first", Any)])
    >>> ring = SequenceReplay.empty(4, 1, like=Item(jnp.int32(0), jnp.array(False)))
    >>> for x in range(6):
    ...     ring = ring.add(Item(jnp.full((1, 1), x, jnp.int32), jnp.zeros((1, 1), bool)))
    >>> ring.sample(1, 4, key=jax.random.key(0)).items.x.ravel().tolist()
    [2, 3, 4, 5]
    """

    storage: Any  # [capacity, B, ...]
    added: Int32[Array, " B"]  # steps that were ever added to each stream
    served: Int32[Array, " B"]  # steps that `sample_fresh` has handed out
    age: Int32[Array, "capacity B"]  # how many steps of the same episode lie before this one
    last_age: Int32[Array, " B"]

    @classmethod
    def empty(cls, capacity: int, num_streams: int, like: Any) -> "SequenceReplay":
        """Rings for items such as `like`: one step of one stream, or its `jax.ShapeDtypeStruct`s."""
        capacity = check_capacity(capacity, "SequenceReplay.empty", less_than=2**30)
        require(is_count(num_streams), "SequenceReplay.empty: num_streams", num_streams, "a positive integer")
        layout = layout_of(like, "SequenceReplay.empty")
        check_stream(like, "SequenceReplay.empty")
        kinds = [jax.dtypes.canonicalize_dtype(dtype) for dtype in layout.dtypes]
        leaves = [jnp.zeros((capacity, num_streams, *shape), dtype) for shape, dtype in zip(layout.shapes, kinds, strict=True)]
        none = jnp.zeros(num_streams, jnp.int32)
        age = jnp.full((capacity, num_streams), -1, jnp.int32)
        return cls(jax.tree.unflatten(layout.structure, leaves), none, none.copy(), age, none - 1)

    def __repr__(self) -> str:
        return f"SequenceReplay(size={self.size}, capacity={self.capacity} x {self.num_streams})"

    @property
    def capacity(self) -> int:
        """Steps that each stream can hold."""
        return self.age.shape[0]

    @property
    def num_streams(self) -> int:
        return self.age.shape[1]

    @property
    def like(self) -> Any:
        """Shapes and dtypes of one step of one stream."""
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[2:], x.dtype), self.storage)

    @property
    def size(self) -> Int32[Array, ""]:
        """Steps in all streams."""
        return jnp.minimum(self.added, self.capacity).sum()

    def num_stretches(self, length: int) -> Int32[Array, ""]:
        """How many stretches of this length there are."""
        return num_stretches(self._index, length, jnp).sum()

    @property
    def _index(self) -> Index:
        return Index(jnp.maximum(self.added - self.capacity, 0), self.added, self.age)

    def add(self, items: Any, valid: Bool[Array | np.ndarray, "N B"] | None = None) -> "SequenceReplay":
        """Append steps `[N, B, ...]`, each to its stream; the oldest make room. Those that are not `valid` are left out."""
        num = check_steps(items, valid, self.like, self.num_streams, "SequenceReplay.add")
        if num > self.capacity:
            raise ShapeError(f"SequenceReplay.add: {num} steps at once, but a stream holds {self.capacity}. Add fewer, or build it larger.")
        valid = jnp.ones((num, self.num_streams), bool) if valid is None else jnp.asarray(valid)
        items = jax.tree.unflatten(jax.tree.structure(self.storage), jax.tree.leaves(items))
        return _add(self, items, valid)

    def sample(self, num: int, length: int, *, key: PRNGKeyArray, within_episodes: bool = False) -> Sequences:
        """Draw `num` stretches of `length` steps, each uniformly and with replacement.

        Inside of `jit` nobody can be told that there are none: ask `num_stretches(length)` first.
        """
        bits = self._bits(num, length, key, within_episodes)
        return _read(self, *(inside if within_episodes else anywhere)(self._index, bits, length, jnp), length)

    def sample_fresh(self, num: int, length: int, *, key: PRNGKeyArray) -> "tuple[SequenceReplay, Sequences]":
        """Likewise, but first come those that were never drawn by this method, each once and without overlap: nothing new waits long.

        Also the ring, which knows what it has handed out.
        """
        drawn = anywhere(self._index, self._bits(num, length, key, False), length, jnp)
        served, stretches = fresh_first(self._index, self.served, drawn, length, jnp)
        return self._replace(served=served), _read(self, *stretches, length)

    def _bits(self, num: int, length: int, key: PRNGKeyArray, within_episodes: bool) -> UInt32[Array, " N"]:
        require(is_count(num), "SequenceReplay.sample: num", num, "a positive integer")
        require(is_count(length), "SequenceReplay.sample: length", length, "a positive integer")
        check_key(key, "SequenceReplay.sample")
        fix = f"Its streams hold {self.capacity} steps each: build it larger, or draw shorter ones."
        require(length <= self.capacity, "SequenceReplay.sample: length", length, f"at most {self.capacity}", fix)
        if is_concrete(self.added):
            self._check_enough(length, within_episodes)
        return jax.random.bits(key, (num,), jnp.uint32)

    def rewrite(self, sequences: Sequences, **fields: PyTree) -> "SequenceReplay":
        """Replace some fields of the steps of stretches that were just drawn: `replay.rewrite(sequences, latent=latent)`, `[L, N, ...]`."""
        names = [name for name in self.storage._fields if name != "is_first"]
        check_rewritten(fields, sequences.rows, self.like, names, "SequenceReplay.rewrite")
        place = sequences.rows, jnp.broadcast_to(sequences.streams, sequences.rows.shape)

        def write(old, new):
            return old.at[place].set(new)

        written = {name: jax.tree.map(write, getattr(self.storage, name), values) for name, values in fields.items()}
        return self._replace(storage=self.storage._replace(**written))

    def _check_enough(self, length: int, within_episodes: bool) -> None:
        most = int(longest(self._index, within_episodes, jnp))
        if most < length:
            what = "episode" if within_episodes else "stream"
            raise ConfigError(
                f"SequenceReplay.sample: length = {length}, but the longest {what} so far has {most} steps. Add more steps, or draw "
                f"shorter stretches."
            )


@jax.jit
def _add(replay: SequenceReplay, items: Any, valid: Bool[Array, "N B"]) -> SequenceReplay:
    offset = jnp.cumsum(valid, 0, dtype=jnp.int32) - 1
    streams = jnp.broadcast_to(jnp.arange(replay.num_streams), valid.shape)
    rows = jnp.where(valid, (replay.added + offset) % replay.capacity, replay.capacity)  # outside: dropped

    def grow(age, now):
        is_first, valid = now
        age = jnp.where(valid, jnp.where(is_first, 0, age + 1), age)
        return age, age

    last_age, age = jax.lax.scan(grow, replay.last_age, (items.is_first, valid))
    storage, age = jax.tree.map(lambda old, new: old.at[rows, streams].set(new, mode="drop"), (replay.storage, replay.age), (items, age))
    return SequenceReplay(storage, replay.added + valid.sum(0, dtype=jnp.int32), replay.served, age, last_age)


def _read(replay: SequenceReplay, streams: Array, first: Array, length: int) -> Sequences:
    rows = (first + jnp.arange(length)[:, None]) % replay.capacity
    return Sequences(jax.tree.map(lambda x: x[rows, streams], replay.storage), rows, streams)
