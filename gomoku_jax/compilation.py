"""JAX's persistent compilation cache, for scripts: what was compiled once is read at the next start."""

import os
import pathlib

import jax

_LEAST_SECONDS = 0.2  # compilations shorter than this are not worth a file


def default_cache_folder() -> pathlib.Path:
    """`gomoku_jax/compiled` in the user's cache folder: $XDG_CACHE_HOME, or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "gomoku_jax" / "compiled"


def use_compilation_cache(folder: str | pathlib.Path | None = None) -> pathlib.Path | None:
    """Keeps compiled programs in a folder, across processes. For scripts, before the first compilation.

    Does nothing where JAX is told already: by JAX_COMPILATION_CACHE_DIR, by its configuration, or by
    JAX_ENABLE_COMPILATION_CACHE=false.

    Args:
        folder: where; by default `default_cache_folder()`.

    Returns:
        The folder in use; None where the cache is switched off or no folder can be made.
    """
    if not jax.config.jax_enable_compilation_cache:  # pyright: ignore[reportAttributeAccessIssue]
        return None
    if jax.config.jax_compilation_cache_dir:  # pyright: ignore[reportAttributeAccessIssue]
        return pathlib.Path(jax.config.jax_compilation_cache_dir)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        chosen = default_cache_folder() if folder is None else pathlib.Path(folder)
        chosen.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home; a cache is a convenience: work goes on without
        return None
    if not os.access(chosen, os.W_OK | os.X_OK):  # or JAX warns at every compilation
        return None
    jax.config.update("jax_compilation_cache_dir", str(chosen))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _LEAST_SECONDS)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    return chosen
