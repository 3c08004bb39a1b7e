"""Where a run's numbers go: `metrics.jsonl`, TensorBoard, and the console."""

import contextlib
import importlib.metadata
import json
import logging
import math
import os
import pathlib
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gomoku_jax.event_file import EventFile
from gomoku_jax.files import write_all, write_atomically
from gomoku_jax.system import num_cores

METRICS_FILE = "metrics.jsonl"
TENSORBOARD_FOLDER = "tensorboard"


_PACKAGES = ("jax", "jaxlib", "flax", "optax", "mctx", "orbax-checkpoint", "numpy")


def provenance() -> dict[str, Any]:
    """What a published number must carry: versions, commit, hardware, devices."""
    import jax  # asks for the devices, which initializes the backend: never at import

    source = pathlib.Path(__file__).resolve().parent
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "commit": git.stdout.strip() or None,
        "processor": _processor(),
        "cores": num_cores(),
        "devices": [device.device_kind for device in jax.devices()],
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in _PACKAGES},
    }


def _processor() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


class Clock:
    """Wall and CPU time since it was made."""

    def __init__(self):
        self._wall, self._cpu = time.monotonic(), time.process_time()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._wall

    @property
    def cpu_seconds(self) -> float:
        return time.process_time() - self._cpu


def read_metrics(workdir: str | pathlib.Path) -> list[dict[str, Any]]:
    """The rows of a run's metrics, oldest first; lines that a crash has cut short are left out."""
    rows = []
    for line in (pathlib.Path(workdir) / METRICS_FILE).read_bytes().split(b"\n"):
        try:
            row = json.loads(line)
        except ValueError:  # cut short, or not even UTF-8
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


class MetricsWriter:
    """Writes rows of numbers to `metrics.jsonl` and TensorBoard.

    Rows that cannot be written, as on a full disk, are kept and written with those that follow. Every line
    is written at one stroke; one that a crash cuts short spoils no other.

    Args:
        workdir: the run folder, which must exist.
        resume_at: rows of later iterations than this are dropped: a resumed run writes them again. 0
            begins anew.

    Raises:
        OSError: the file cannot be begun; what was there before still is.
    """

    def __init__(self, workdir: str | pathlib.Path, resume_at: int = 0):
        path = pathlib.Path(workdir) / METRICS_FILE
        rows = []
        if resume_at > 0 and path.exists():
            rows = [row for row in read_metrics(workdir) if row.get("iteration", 0) <= resume_at]
        write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows))
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_APPEND)
        self._pending: list[bytes] = []
        self._is_cut = False  # whether the last line is, and could not be removed
        folder = pathlib.Path(workdir) / TENSORBOARD_FOLDER
        self._events = EventFile(folder, purge_step=resume_at + 1 if resume_at else None)

    def add(self, iteration: int, values: Mapping[str, float | int | str]) -> None:
        """One row, for the next `flush`. Numbers that are not finite are null there, which JSON can hold."""
        row: dict[str, Any] = {"iteration": iteration}
        for name, value in values.items():
            finite = isinstance(value, str) or math.isfinite(value)
            row[name] = value if finite else None
        self._pending.append((json.dumps(row) + "\n").encode())
        numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
        del numbers["iteration"]
        self._events.add(iteration, numbers)

    def flush(self) -> None:
        """Writes the rows that were added.

        Raises:
            OSError: some could not be written; they are kept.
        """
        assert self._file is not None
        try:
            while self._pending:
                self._append(self._file, self._pending[0])
                del self._pending[0]
        finally:
            self._events.flush()

    def _append(self, file: int, line: bytes) -> None:
        """One line, whole or not at all."""
        before = os.fstat(file).st_size
        try:
            write_all(file, b"\n" + line if self._is_cut else line)
        except OSError:
            self._is_cut = True
            os.ftruncate(file, before)
            self._is_cut = False
            raise
        self._is_cut = False

    def write(self, iteration: int, values: Mapping[str, float | int | str]) -> None:
        """`add` and `flush`."""
        self.add(iteration, values)
        self.flush()

    def close(self) -> None:
        """Writes what is left, if it can be."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self.flush()
            os.close(self._file)
            self._file = None
        self._events.close()


class ConsoleDisplay:
    """A live progress line in a terminal; plain lines, one every few seconds, elsewhere.

    Args:
        total: iterations of the run.
        done: how many of them are done.
        every_seconds: between two plain lines.
        quiet: show nothing.
        log: takes all messages and all progress, whatever is shown.
    """

    def __init__(
        self,
        total: int,
        done: int = 0,
        every_seconds: float = 10.0,
        quiet: bool = False,
        log: logging.Logger | None = None,
    ):
        self._quiet = quiet
        self._log = log
        self._console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self._live = self._console.is_terminal and not quiet
        self._every = every_seconds
        self._total = total
        self._last = -float("inf")
        self._progress = Progress(
            TextColumn("iteration {task.completed}/{task.total}"),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            TextColumn("{task.fields[text]}"),
            console=self._console,
        )
        self._task = self._progress.add_task("train", total=total, completed=done, text="compiling ...")

    def __enter__(self) -> Self:
        if self._live:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._progress.stop()

    def update(self, iteration: int, text: str) -> None:
        """Shows how far the run is."""
        if self._log is not None:
            self._log.info("iteration %d/%d  %s", iteration, self._total, text)
        if self._live:
            self._progress.update(self._task, completed=iteration, text=text)
        elif not self._quiet and (time.monotonic() - self._last >= self._every or iteration == self._total):
            self._last = time.monotonic()
            self._console.print(f"iteration {iteration}/{self._total}  {text}")

    def message(self, text: str) -> None:
        """A line that stays."""
        if self._log is not None:
            self._log.info("%s", text)
        if not self._quiet:
            self._console.print(text)
