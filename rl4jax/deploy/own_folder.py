"""Whether files may be written to a folder: what somebody else keeps there must not be lost."""

import json
import os
from collections.abc import Callable, Collection
from pathlib import Path

from rl4jax.core.errors import ConfigError

from .bundle import CONFIG, FORMAT, read_bytes

OF_A_RUN = "checkpoints"
PAGE = "page.json"  # what is played, and the sign of a page: a bundle's config.json lies there too


def check_folder(folder: Path, files: Collection[str], is_ours: Callable[[Path], bool], what: str) -> None:
    """Raise if these files would replace what is not ours, or lie in the folder of a run. Nothing is changed.

    Only where `is_ours(folder)` may they be there already. `what` is written: `a bundle`.
    """
    for name in files:
        if (folder / name).is_dir():
            raise ConfigError(f"{folder / name} is a folder, so {what} cannot be written there. Give a new folder.")
        above = next(path for path in (folder / name).absolute().parents if os.path.lexists(path))
        if not above.is_dir():
            raise ConfigError(f"{above} is not a folder, so {what} cannot be written there. Give a new folder.")
    found = [name for name in (*files, OF_A_RUN) if os.path.lexists(folder / name)]
    if found and not is_ours(folder):
        raise ConfigError(
            f"{folder} holds {', '.join(found)}, not those of {what}: to write one there would destroy them. "
            f"Give a new folder, or that of {what} to be replaced."
        )


def holds_bundle(folder: Path) -> bool:
    """Whether its config.json is that of a bundle, and not of a page of one."""
    try:
        config = json.loads(read_bytes(folder / CONFIG))
    except (OSError, ValueError, RecursionError, MemoryError):
        return False
    return isinstance(config, dict) and config.get("format") == FORMAT and not os.path.lexists(folder / PAGE)
