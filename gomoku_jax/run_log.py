"""A run's `train.log`: everything that was said, with the time. It rotates, and never stops the run."""

import contextlib
import logging
import logging.handlers
import pathlib
from collections.abc import Iterator

LOG_FILE = "train.log"
_MAX_BYTES = 1_000_000  # of a file; then it becomes train.log.1, and that train.log.2
_OLD_FILES = 2
_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class _Handler(logging.handlers.RotatingFileHandler):
    """Goes on in silence where the file cannot be written: the run is worth more than its log."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (the library's name)
        del record

    def close(self) -> None:
        with contextlib.suppress(OSError):
            super().close()


@contextlib.contextmanager
def run_log(
    workdir: str | pathlib.Path | None, max_bytes: int = _MAX_BYTES, old_files: int = _OLD_FILES
) -> Iterator[logging.Logger]:
    """A logger that appends to a run's `train.log` while this lasts; also the error that ends it.

    The logger is nobody else's: no other run in the process, and no library, writes into it, and nothing of
    it reaches the console.

    Args:
        workdir: the run folder; None logs nothing, for processes that do not write.
        max_bytes: of one file, about.
        old_files: kept besides it.
    """
    log = logging.Logger("gomoku_jax.run")
    handler: logging.Handler = logging.NullHandler()
    if workdir is not None:
        path = pathlib.Path(workdir) / LOG_FILE
        handler = _Handler(path, maxBytes=max_bytes, backupCount=old_files, delay=True, encoding="utf-8")
    handler.setFormatter(logging.Formatter(_FORMAT))
    log.addHandler(handler)
    try:
        yield log
    except BaseException as error:
        log.error("%s: %s", type(error).__name__, error, exc_info=True)
        raise
    finally:
        log.removeHandler(handler)
        handler.close()
