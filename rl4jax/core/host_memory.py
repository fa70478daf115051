"""Memory on the host: what a program frees is kept for the next one, and how much there is."""

import ctypes
import os
import platform
import re
from pathlib import Path

# Of glibc's malloc.h: the size from which memory is asked of the system and given back each time, and how much may lie idle at the end.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
_GIBIBYTE = 1 << 30


def keep_freed_memory() -> bool:
    """Have the C library keep freed memory, and say whether it does.

    XLA on CPU takes the working memory of a program anew for every call. As a rule glibc gives pieces of more than 32 MB back to the
    system at once, and gets them again page by page, cleared: a quarter of the time of a transformer's training step. Here pieces
    of up to 1 GiB are kept, so a process stays as large as it once was. Elsewhere than on glibc, and if the environment has settings
    of malloc already, nothing is changed.
    """
    own = any(name.startswith("MALLOC_") for name in os.environ) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if own or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_MMAP_THRESHOLD, _GIBIBYTE) and mallopt(_TRIM_THRESHOLD, 2 * _GIBIBYTE - 1))


def available_memory() -> int | None:
    """Bytes that a program could still take, where the system says so (Linux)."""
    about = Path("/proc/meminfo")
    found = re.search(r"MemAvailable: *(\d+) kB", about.read_text()) if about.is_file() else None
    return 1024 * int(found[1]) if found else None
