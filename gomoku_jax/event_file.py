"""TensorBoard's event files, written in this thread.

tensorboardX's own writer works in a thread of its own. Where that fails, on a full disk, it ends without a
word, and whoever adds a number waits for it for ever.
"""

import contextlib
import os
import pathlib
import socket
import time
from collections.abc import Mapping
from typing import Any


def _proto() -> Any:
    """The messages of TensorBoard's files."""
    from tensorboardX.proto import event_pb2  # slow to import, and only runs need it

    return event_pb2


class EventFile:
    """Numbers by iteration, for TensorBoard.

    What was added is kept until it is on the disk. After a failure the next attempt begins another file, as
    the end of the last one may be cut short; TensorBoard reads them one after the other.

    Args:
        folder: made if it is not there.
        purge_step: TensorBoard forgets what earlier files say of this iteration and later ones; None is
            nothing.
        every_seconds: between writes.
    """

    def __init__(self, folder: pathlib.Path, purge_step: int | None = None, every_seconds: float = 60.0):
        self._folder = folder
        self._every = every_seconds
        self._pending: list[bytes] = []
        self._writer: Any = None  # tensorboardX's
        self._written = -float("inf")
        self._count = 0
        if purge_step is not None:
            self._add_purge(purge_step)

    def _add_purge(self, step: int) -> None:
        proto = _proto()
        start = proto.SessionLog(status=proto.SessionLog.START)
        event = proto.Event(wall_time=time.time(), step=step, session_log=start)
        self._pending.append(event.SerializeToString())

    def add(self, iteration: int, values: Mapping[str, float]) -> None:
        """Numbers of an iteration, by name; written with the next `flush`."""
        from tensorboardX.summary import scalar

        proto, now = _proto(), time.time()
        for name, value in values.items():
            event = proto.Event(wall_time=now, step=iteration, summary=scalar(name, value))
            self._pending.append(event.SerializeToString())

    def flush(self, now: bool = False) -> None:
        """Writes what was added, if it is time, or `now`.

        Raises:
            OSError: it could not be written; it is kept.
        """
        if not self._pending or not (now or time.monotonic() - self._written >= self._every):
            return
        try:
            writer = self._writer or self._begin()
            for event in self._pending:
                writer.write(event)
            writer.flush()
        except OSError:
            self._drop()
            raise
        self._pending.clear()
        self._written = time.monotonic()

    def _begin(self) -> Any:
        from tensorboardX.record_writer import RecordWriter

        self._folder.mkdir(parents=True, exist_ok=True)
        stamp = f"{time.time():.0f}.{socket.gethostname()}.{os.getpid()}.{self._count}"
        self._count += 1
        path = self._folder / f"events.out.tfevents.{stamp}"
        self._writer = RecordWriter(str(path))
        try:
            head = _proto().Event(wall_time=time.time(), file_version="brain.Event:2")
            self._writer.write(head.SerializeToString())
            self._writer.flush()
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()  # or every attempt would leave one
            raise
        return self._writer

    def _drop(self) -> None:
        """The file is given up: nobody knows how much of the last rows is in it."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.close()

    def close(self) -> None:
        """Writes what is left, if it can be."""
        with contextlib.suppress(OSError):
            self.flush(now=True)
        self._drop()
