"""Files that a crash or a full disk leaves whole: the old content or the new, never a part of it."""

import contextlib
import errno
import os
import pathlib
from collections.abc import Callable

_PARTIAL = ".partial"  # suffix of the file that is written beside another, to take its place
_PROBE_BYTES = 4096  # a block: on a full disk an empty file can still be made

# (what is written, what writes it): see `saving.Saver.keep`.
Keep = Callable[[str, Callable[[], object]], None]


def keep_now(name: str, write: Callable[[], object]) -> None:
    """A `Keep` that writes at once, or raises."""
    del name
    write()


def reason_of(error: BaseException) -> str:
    """What an error says, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."


def write_all(file: int, data: bytes) -> None:
    """All of the data to an open file descriptor, in as many writes as it takes.

    Raises:
        OSError: some of it could not be written; the part before may be in the file.
    """
    rest = memoryview(data)
    while rest:
        written = os.write(file, rest)
        if written == 0:
            raise OSError(errno.EIO, "nothing was written")
        rest = rest[written:]


def write_atomically(path: str | os.PathLike[str], data: str | bytes) -> None:
    """Replaces a file, or makes one. Whoever reads it, and whenever this is cut short, sees all or nothing.

    Raises:
        OSError: it could not be written; what was there before still is.
    """
    path = pathlib.Path(path)
    data = data.encode() if isinstance(data, str) else data
    partial = path.with_name(path.name + _PARTIAL)
    try:
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            write_all(file, data)
            os.fsync(file)  # or the name could reach the disk before the content
        finally:
            os.close(file)
        os.replace(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(partial)  # on a full disk it is in the way
        raise
    sync_folder(path.parent)


def sync_folder(folder: pathlib.Path) -> None:
    """Makes new names in a folder outlive a loss of power, where the system can."""
    with contextlib.suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def check_writable(folder: str | os.PathLike[str]) -> None:
    """Raises OSError where no file can be written into a folder, or into the one where it is to be made.

    It tries: permissions tell nothing of full disks and read-only file systems. It leaves nothing behind.
    """
    folder = pathlib.Path(folder).absolute()
    place = folder
    try:
        while not place.exists() and place != place.parent:
            place = place.parent
        if not place.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "a file is in the way")
        probe = place / f".writable-{os.getpid()}"
        file = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            write_all(file, bytes(_PROBE_BYTES))
            os.fsync(file)
        finally:
            os.close(file)
            os.unlink(probe)
    except OSError as error:
        where = "" if place == folder else f" in {place}"
        raise OSError(f"{folder} cannot be written{where}: {reason_of(error)}") from error
