"""Where a run's numbers go: `metrics.jsonl`, TensorBoard, and the console."""

import importlib.metadata
import json
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
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
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
    """The rows of a run's metrics, oldest first; a last line cut short by a crash is left out."""
    rows = []
    for line in (pathlib.Path(workdir) / METRICS_FILE).read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


class MetricsWriter:
    """Writes rows of numbers to `metrics.jsonl` and TensorBoard.

    Args:
        workdir: the run folder, which must exist.
        resume_at: rows of later iterations than this are dropped: a resumed run writes them again. 0
            begins anew.
    """

    def __init__(self, workdir: str | pathlib.Path, resume_at: int = 0):
        from tensorboardX import SummaryWriter  # slow to import, and only runs need it

        self._path = pathlib.Path(workdir) / METRICS_FILE
        rows = []
        if resume_at > 0 and self._path.exists():
            rows = [row for row in read_metrics(workdir) if row.get("iteration", 0) <= resume_at]
        self._path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self._file = self._path.open("a", buffering=1)
        folder = pathlib.Path(workdir) / TENSORBOARD_FOLDER
        self._tensorboard = SummaryWriter(str(folder), purge_step=resume_at + 1 if resume_at else None)

    def write(self, iteration: int, values: Mapping[str, float | int | str]) -> None:
        """One row. Numbers that are not finite are written as null, which JSON can hold."""
        row: dict[str, Any] = {"iteration": iteration}
        for name, value in values.items():
            if isinstance(value, float) and not (-float("inf") < value < float("inf")):
                row[name] = None
                continue
            row[name] = value
            if not isinstance(value, str):
                self._tensorboard.add_scalar(name, value, iteration)
        self._file.write(json.dumps(row) + "\n")

    def close(self) -> None:
        self._file.close()
        self._tensorboard.close()


class ConsoleDisplay:
    """A live progress line in a terminal; plain lines, one every few seconds, elsewhere."""

    def __init__(self, total: int, done: int = 0, every_seconds: float = 10.0, quiet: bool = False):
        self._quiet = quiet
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
        if self._live:
            self._progress.update(self._task, completed=iteration, text=text)
        elif not self._quiet and (time.monotonic() - self._last >= self._every or iteration == self._total):
            self._last = time.monotonic()
            self._console.print(f"iteration {iteration}/{self._total}  {text}")

    def message(self, text: str) -> None:
        """A line that stays."""
        if not self._quiet:
            self._console.print(text)
