"""Settings of the process: one that importing rl4jax makes, and those you ask for with `setup`."""

import importlib.util
import mmap
import os
import pathlib
import sys
import tempfile
import warnings

from .errors import missing_extra
from .host_memory import keep_freed_memory

_FLAG = "xla_cpu_enable_concurrency_optimized_scheduler"


def make_cpu_safe() -> None:
    """Keep XLA on CPU from hanging for ever in programs with many small operations, such as training vmapped over seeds.

    jaxlib's scheduler for concurrent operations can deadlock on few cores. Called when rl4jax is imported; it adds one flag
    to `XLA_FLAGS`, unless you set that flag yourself, and says so if JAX has already started and no longer reads it.
    """
    flags = os.environ.get("XLA_FLAGS", "").strip()
    in_a_file = bool(flags) and not flags.startswith("-")  # XLA then reads the flags from there
    known = pathlib.Path(flags).read_text() if in_a_file and pathlib.Path(flags).is_file() else flags
    if _FLAG in known or not _jaxlib_knows(_FLAG):
        return
    if in_a_file or _backend_started():
        reason = f"XLA_FLAGS names the file {flags}" if in_a_file else "rl4jax was imported after JAX had started"
        warnings.warn(
            f"{reason}, so rl4jax cannot add --{_FLAG}=false to the flags. On CPU, larger vmapped programs may hang. Import rl4jax "
            f"before the first JAX computation, or set the flag yourself.",
            RuntimeWarning,
            stacklevel=3,
        )
        return
    os.environ["XLA_FLAGS"] = f"{flags} --{_FLAG}=false".strip()


def setup(*, cache_dir: str | os.PathLike | None = None, contracts: bool = False) -> None:
    """Settings for speed that a library should not make on its own; call it first in a script.

    Compiled programs are kept on disk (in `cache_dir`, by default `rl4jax/xla` in the user's cache folder) and found again by
    the next run; small calls on CPU return without a trip through another thread; on glibc freed memory is kept for the next call,
    so that a process stays as large as it once was. With `contracts=True` the shapes and dtypes in rl4jax's signatures are checked
    on every call (needs the extra `contracts`; for the parts of rl4jax not imported yet). What you set yourself in JAX or in malloc,
    by environment variable or by `jax.config`, stays.
    """
    import jax

    if contracts:
        from jaxtyping import install_import_hook

        if importlib.util.find_spec("beartype") is None:
            raise missing_extra("setup(contracts=True)", extra="contracts")
        install_import_hook("rl4jax", "beartype.beartype")
    if cache_dir is not None or jax.config.jax_compilation_cache_dir is None:  # pyright: ignore[reportAttributeAccessIssue]
        jax.config.update("jax_compilation_cache_dir", str(cache_dir or _cache_home() / "rl4jax" / "xla"))
    if jax.config.jax_persistent_cache_min_compile_time_secs == 1.0:  # JAX's default  # pyright: ignore[reportAttributeAccessIssue]
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    if "JAX_CPU_ENABLE_ASYNC_DISPATCH" not in os.environ and not _backend_started():
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    keep_freed_memory()


def _cache_home() -> pathlib.Path:
    try:
        return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    except RuntimeError:  # a container's user may have no home
        return pathlib.Path(tempfile.gettempdir())


def _backend_started() -> bool:
    if "jax" not in sys.modules:
        return False
    try:
        from jax._src import xla_bridge  # JAX has no public question for this

        return xla_bridge.backends_are_initialized()
    except (ImportError, AttributeError):
        return False


def _jaxlib_knows(flag: str) -> bool:
    """Whether the installed jaxlib has a flag of this name: XLA ends the process on one it does not know."""
    spec = importlib.util.find_spec("jaxlib")
    if spec is None or not spec.submodule_search_locations:
        return False
    for folder in spec.submodule_search_locations:
        for library in pathlib.Path(folder).glob("libjax_common.*"):
            with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return content.find(flag.encode()) >= 0
    return False
