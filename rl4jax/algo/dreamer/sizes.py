"""How large a world model is: the presets of DreamerV3, and one for small computers."""

from typing import NamedTuple

from rl4jax.core.errors import ConfigError, did_you_mean, is_count, require

MOST_CLASSES = 256


class Size(NamedTuple):
    """Sizes of all parts of an agent."""

    deter: int  # units of memory
    hidden: int  # units of the layers inside the world model
    units: int  # units of the layers of encoder, decoder and heads
    classes: int  # of each drawn choice
    depth: int = 16  # channels of pictures, times 2, 3, 4 and 4
    groups: int = 32  # drawn choices
    num_blocks: int = 8  # of the memory
    num_bins: int = 255  # of rewards and values


def published(hidden: int) -> Size:
    return Size(8 * hidden, hidden, hidden, hidden // 16, hidden // 16)


SIZES = {
    "tiny": Size(deter=256, hidden=64, units=64, classes=4, depth=4, num_bins=63),
    "1m": published(64),
    "12m": published(256),
    "25m": published(384),
    "50m": published(512),
    "100m": published(768),
    "200m": published(1024),
    "400m": published(1536),
}


def size_named(size: str | Size) -> Size:
    """A preset by its name; a `Size` as it is, checked."""
    if isinstance(size, Size):
        for field, value in size._asdict().items():
            require(is_count(value), f"dreamer.Size.{field}", value, "a positive integer")
        require(size.classes <= MOST_CLASSES, "dreamer.Size.classes", size.classes, f"at most {MOST_CLASSES}", "They are stored as bytes.")
        require(size.num_bins >= 3, "dreamer.Size.num_bins", size.num_bins, "at least 3")
        return size
    if not isinstance(size, str) or size not in SIZES:
        raise ConfigError(f"dreamer: size = {size!r} is not one we know. {did_you_mean(str(size), SIZES)} Or give a Size of your own.")
    return SIZES[size]
