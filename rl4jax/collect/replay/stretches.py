"""Which stretches of steps there are in rings of streams, and which of them random bits draw: in JAX, and in NumPy."""

from typing import Any, NamedTuple

from jaxtyping import Int, UInt32


class Index(NamedTuple):
    """What lies where. Step i of a stream, counted from the first that was ever added, is in row `i % capacity`."""

    oldest: Int[Any, " B"]  # the first step of each stream that is still there
    added: Int[Any, " B"]  # steps that were ever added to it
    age: Int[Any, "capacity B"]  # how many steps of the same episode lie before this one


Stretches = tuple[Int[Any, " N"], Int[Any, " N"]]  # streams, and first steps


def num_stretches(index: Index, length: int, xp: Any) -> Int[Any, " B"]:
    """How many of this length each stream has."""
    return xp.maximum(index.added - index.oldest - length + 1, 0)


def anywhere(index: Index, bits: UInt32[Any, " N"], length: int, xp: Any) -> Stretches:
    """Stretches that may cross episodes."""
    starts = num_stretches(index, length, xp)
    streams, rank = nth(starts, bits, xp)
    return streams, index.oldest[streams] + rank


def inside(index: Index, bits: UInt32[Any, " N"], length: int, xp: Any) -> Stretches:
    """Stretches within one episode: they end where enough of it lies before, and is still there."""
    capacity, steps = len(index.age), steps_in_rows(index, xp)
    good = num_before(index, xp) >= length - 1
    place, _ = nth(good.T.ravel().astype(index.added.dtype), bits, xp)  # stream by stream
    streams, row = place // capacity, place % capacity
    return streams, steps[row, streams] - length + 1


def longest(index: Index, within_episodes: bool, xp: Any) -> Int[Any, ""]:
    """Steps of the longest stretch there is."""
    return (num_before(index, xp) + 1).max() if within_episodes else (index.added - index.oldest).max()


def steps_in_rows(index: Index, xp: Any) -> Int[Any, "capacity B"]:
    """The number of the step that lies in each row; a negative one where there is none yet."""
    capacity = len(index.age)
    return index.added - 1 - (index.added - 1 - xp.arange(capacity)[:, None]) % capacity


def num_before(index: Index, xp: Any) -> Int[Any, "capacity B"]:
    """How many steps of the same episode lie before that of each row and are still there; -1 where there is none itself."""
    return xp.maximum(xp.minimum(index.age, steps_in_rows(index, xp) - index.oldest), -1)


def fresh_first(index: Index, served: Int[Any, " B"], drawn: Stretches, length: int, xp: Any) -> tuple[Int[Any, " B"], Stretches]:
    """Put stretches that were not handed out yet in the place of the first ones that were drawn; also what is handed out then."""
    streams, first = drawn
    served = xp.maximum(served, index.oldest)  # what was overwritten cannot be served any more
    waiting = (index.added - served) // length
    ends = xp.cumsum(waiting).astype(waiting.dtype)
    turn = xp.arange(len(streams))
    of = xp.minimum(xp.searchsorted(ends, turn, side="right"), len(served) - 1)
    place = served[of] + (turn - (ends - waiting)[of]) * length
    is_fresh = turn < ends[-1]
    taken = ((of == xp.arange(len(served))[:, None]) & is_fresh).sum(1).astype(served.dtype)
    return served + length * taken, (xp.where(is_fresh, of, streams), xp.where(is_fresh, place, first))


def nth(counts: Int[Any, " M"], bits: UInt32[Any, " N"], xp: Any) -> Stretches:
    """Of so many of each kind, the kind that is drawn, and which of that kind."""
    ends = xp.cumsum(counts).astype(counts.dtype)
    drawn = (bits % xp.maximum(ends[-1], 1).astype(bits.dtype)).astype(counts.dtype)
    kind = xp.searchsorted(ends, drawn, side="right").astype(counts.dtype)
    return kind, drawn - (ends - counts)[kind]
