"""The game as other libraries' environments: Gymnasium, PettingZoo, pgx; each needs the extra of its name."""


def missing_extra(library: str, error: ImportError) -> ImportError:
    """The error to raise where an adapter's library is not there; it names the extra that brings it."""
    return ImportError(
        f"this environment needs {library} ({error}): install it with pip install 'gomoku_jax[{library}]'"
    )
