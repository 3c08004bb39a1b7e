"""What a run writes, on disks that may be full: a failure is told, the run goes on, and it is tried again.

A checkpoint that fails leaves the older ones as they are: orbax writes into a folder of another name, takes
the checkpoint's name only when it is whole, and drops the oldest only then.
"""

import contextlib
import gc
import logging
import os
import pathlib
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from gomoku_jax.checkpoint import CHECKPOINT_FOLDER, TrainingState, checkpoint_steps
from gomoku_jax.distributed import RefusedError, any_process, is_main, main_first
from gomoku_jax.files import reason_of

# What orbax and tensorstore raise where a file cannot be written, beside what the system does.
_FAILURES = (OSError, ValueError)
_NOISY = ("absl", "asyncio")  # loggers of what goes on in orbax's threads after a failure
_PARTIAL = "*.orbax-checkpoint-tmp*"  # how orbax calls a checkpoint that is not whole yet

_CHECKPOINT = "the checkpoint"
_SETTLE_SECONDS = 0.2  # until orbax's threads have noticed that the save is over


class SaveError(RuntimeError):
    """The run is over, and something of it could not be written."""


class Saver:
    """Writes what a run keeps, and tries again what failed.

    Args:
        workdir: the run folder.
        save: writes a checkpoint of a state. All processes of a run call it together.
        tell: takes what there is to say.
        saved_at: iteration of the checkpoint that the run goes on from; -1 where it begins.
    """

    def __init__(
        self,
        workdir: str | pathlib.Path,
        save: Callable[[TrainingState], object],
        tell: Callable[[str], None],
        saved_at: int = -1,
    ):
        self._workdir = pathlib.Path(workdir)
        self._save = save
        self._tell = tell
        self._pending: dict[str, Callable[[], object]] = {}  # what to write again, by its name
        self._reasons: dict[str, str] = {}  # of what could not be written, the checkpoint included
        self.saved_at = saved_at

    def keep(self, name: str, write: Callable[[], object]) -> None:
        """Calls `write` now, and where that fails again by `retry`.

        Args:
            name: what it writes, a path in the run folder; a later one of the same name takes its place.
            write: must hold whatever it needs: the arrays of the training state are soon gone.
        """
        try:
            write()
        except OSError as error:
            self._pending[name] = write
            self._failed(name, reason_of(error))
        else:
            self._pending.pop(name, None)
            self._wrote(name)

    def retry(self) -> None:
        """Tries again what `keep` could not write; for after every iteration."""
        for name, write in list(self._pending.items()):
            self.keep(name, write)

    @property
    def is_behind(self) -> bool:
        """Whether the last checkpoint could not be written, and is to be tried again; the same everywhere."""
        return _CHECKPOINT in self._reasons

    def checkpoint(self, state: TrainingState) -> bool:
        """Writes a checkpoint, or says why it cannot; is it there? All processes call this together."""
        try:
            main_first(self._check_space)
            reason = self._attempt(state)
        except (OSError, RefusedError) as error:
            reason = reason_of(error)
        if any_process(reason is not None):
            if is_main():
                for partial in (self._workdir / CHECKPOINT_FOLDER).glob(_PARTIAL):
                    shutil.rmtree(partial, ignore_errors=True)  # it takes room, and is of no use
            self._failed(_CHECKPOINT, reason or "another process could not write its part")
            return False
        self.saved_at = int(state.progress.iteration)
        self._wrote(_CHECKPOINT)
        return True

    def _attempt(self, state: TrainingState) -> str | None:
        """Writes a checkpoint; why it could not, or None."""
        with _quiet_threads():
            try:
                self._save(state)
                return None
            except _FAILURES as error:
                reason = _reason_of_save(error)
            time.sleep(_SETTLE_SECONDS)
            gc.collect()  # what is left of its tasks tells of the failure once more when it goes
        return reason

    def finish(self, state: TrainingState) -> None:
        """At the end of a run: has all been written? All processes call this together.

        Raises:
            SaveError: something could not be written; on the process that was to write it.
            RefusedError: on the others.
        """
        self.retry()
        if not any_process(bool(self._reasons)):
            return
        if not self._reasons:
            raise RefusedError("not all of the run could be written; process 0 says what")
        lost = "; ".join(
            f"{kind}{f', {len(reasons)} files' if len(reasons) > 1 else ''}: {reasons[-1]}"
            for kind, reasons in self._missing().items()
        )
        raise SaveError(
            f"iteration {int(state.progress.iteration)} is done, but not all of it could be written into "
            f"{self._workdir} ({lost}). {newest_checkpoint(self._workdir)}"
        )

    def _check_space(self) -> None:
        """Raises OSError where there is no room for another checkpoint like the newest.

        Orbax would notice as well, but in its threads, half-way.
        """
        folder = self._workdir / CHECKPOINT_FOLDER
        steps = checkpoint_steps(self._workdir)
        if not steps:
            return
        needed = sum(path.stat().st_size for path in (folder / str(steps[0])).rglob("*") if path.is_file())
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise OSError(f"it takes {needed / 1e6:.3g} MB, and {free / 1e6:.3g} MB are free")

    def _missing(self) -> dict[str, list[str]]:
        """The reasons by kind: what is written into one folder is told as one, and once."""
        kinds: dict[str, list[str]] = {}
        for name, reason in self._reasons.items():
            kinds.setdefault(_kind(name), []).append(reason)
        return kinds

    def _failed(self, name: str, reason: str) -> None:
        if _kind(name) not in self._missing():
            self._tell(
                f"warning: {_kind(name)} could not be written into {self._workdir}: {reason}. "
                "The run goes on and tries again after every iteration"
            )
        self._reasons[name] = reason

    def _wrote(self, name: str) -> None:
        if self._reasons.pop(name, None) is not None and _kind(name) not in self._missing():
            self._tell(f"{_kind(name)} could be written now")


def _kind(name: str) -> str:
    return name.partition("/")[0]


def _reason_of_save(error: BaseException) -> str:
    """What the system said, in tensorstore's long message, or else the message."""
    number = re.search(r"os_error_code='(\d+)'", str(error))
    return reason_of(error) if number is None else os.strerror(int(number[1]))


def newest_checkpoint(workdir: str | pathlib.Path) -> str:
    """A sentence that names the newest whole checkpoint of a run folder."""
    steps = checkpoint_steps(workdir)
    if not steps:
        return f"There is no checkpoint yet in {workdir}"
    folder = pathlib.Path(workdir) / CHECKPOINT_FOLDER / str(steps[0])
    return f"The newest whole checkpoint is of iteration {steps[0]}, {folder}; --resume goes on from there"


@contextlib.contextmanager
def _quiet_threads() -> Iterator[None]:
    """Without what orbax's threads print when a write has failed: the error comes to the caller as well."""

    def drop(record: logging.LogRecord) -> bool:
        del record
        return False

    def hook(unraisable: Any) -> None:
        if str(unraisable.exc_value) != "Event loop is closed":  # what the threads find that come later
            before(unraisable)

    before, sys.unraisablehook = sys.unraisablehook, hook
    for name in _NOISY:
        logging.getLogger(name).addFilter(drop)
    try:
        yield
    finally:
        for name in _NOISY:
            logging.getLogger(name).removeFilter(drop)
        sys.unraisablehook = before
