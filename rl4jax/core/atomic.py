"""Files that appear whole or not at all, also when the process is killed or the disk fills up."""

import contextlib
import errno
import json
import os
import re
import secrets
import threading
from pathlib import Path
from typing import Any

import numpy as np

from .errors import CheckpointError

_TOKEN = secrets.token_hex(4)  # tells this process from an earlier one with the same pid, as in a restarted container
_UNFINISHED = re.compile(r"\..+\.(\d{1,9})-([0-9a-f]{8})-\d+\.part")


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file, and its folders, so that the old one stays until the new one is whole and on the disk."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}-{_TOKEN}-{threading.get_ident()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with unfinished.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        except BaseException:  # also Ctrl-C, which must leave no litter
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise
        sync_folder(path.parent)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise CheckpointError(f"{path} cannot be written: {error}.") from error


def sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut."""
    if os.name == "nt":  # cannot open folders
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:  # some network and FUSE file systems cannot sync folders, and need not stop a run
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def sweep(folder: Path) -> None:
    """Remove the unfinished files of processes that were killed while writing."""
    with contextlib.suppress(OSError):  # a folder that cannot be listed or cleaned is no reason to stop
        for name in os.listdir(folder):
            match = _UNFINISHED.fullmatch(name)
            if match and not _may_be_writing(int(match[1]), match[2]):
                (folder / name).unlink(missing_ok=True)


def _may_be_writing(pid: int, token: str) -> bool:
    if pid == os.getpid():
        return token == _TOKEN
    if os.name == "nt":  # where os.kill(pid, 0) is Ctrl-C
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # alive, and another user's
        return True
    return True


def to_json(what: str, obj: Any, indent: int | None = None) -> str:
    """JSON in which NaN and infinities are Python's, arrays are lists, and scalars of NumPy and JAX are numbers."""
    try:
        return json.dumps(obj, indent=indent, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{what} cannot be written as JSON: {error}. Give numbers, strings, lists and dicts.") from error


def _plain(x: Any) -> Any:
    array = np.asarray(x)  # also of a metric that was not fetched from the device
    if array.dtype.kind not in "biuf":
        raise TypeError(f"it holds {x!r}")
    return array.tolist()
