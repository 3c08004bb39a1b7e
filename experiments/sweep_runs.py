"""The runs of a sweep on disk: how far each is, and running the missing ones."""

import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Literal

from sweep_plan import PlannedRun, differences, flags

from gomoku_jax.checkpoint import CONFIG_FILE, checkpoint_steps, holds_run, read_config
from gomoku_jax.config import TrainConfig
from gomoku_jax.metrics import read_metrics
from gomoku_jax.system import on_stop_signals

LOG_FILE = "output.log"  # what train.py prints; its own train.log is beside it, and rotates
_LOCK_FILE = "sweep.lock"  # held by the process that runs the folder
_TRAIN = pathlib.Path(__file__).parent / "train.py"
_TAIL = 5  # lines of a failed run's log that are shown


@dataclasses.dataclass(frozen=True)
class RunState:
    """How far a run is.

    Attributes:
        kind: "running" is by a process that holds the folder's lock.
        iteration: of the newest checkpoint, from which it goes on; of a running one, of its last metrics.
        seconds: spent by then, on the clock of the run's limit.
    """

    kind: Literal["missing", "half done", "running", "finished"]
    iteration: int = 0
    seconds: float = 0.0

    def describe(self, config: TrainConfig) -> str:
        """As a user reads it."""
        if self.kind == "missing":
            return self.kind
        text = f"{self.kind}, at iteration {self.iteration}"
        if config.max_minutes > 0:
            return f"{text}, {self.seconds / 60:.1f} of {config.max_minutes:g} minutes"
        return f"{text} of {config.iterations}"


class BusyError(Exception):
    """Another process runs this folder."""


def metrics_of(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The rows of a run's metrics; none where it has written none."""
    try:
        return [row for row in read_metrics(folder) if isinstance(row, dict) and "iteration" in row]
    except FileNotFoundError:
        return []


def run_state(folder: pathlib.Path, config: TrainConfig) -> RunState:
    """How far the run in a folder is, by its checkpoints, metrics and lock.

    Args:
        folder: the run's.
        config: what it is to become.
    """
    if not holds_run(folder) and not is_locked(folder):
        return RunState("missing")
    rows = metrics_of(folder)
    spent_by = {row["iteration"]: row.get(f"time/{_clock(config)}", 0.0) for row in rows}
    saved = max(checkpoint_steps(folder), default=0)
    if is_locked(folder):
        last = max(spent_by, default=0)
        return RunState("running", last, spent_by.get(last, 0.0))
    spent = spent_by.get(saved, 0.0)
    out_of_time = 0 < config.max_minutes * 60 <= spent
    done = saved > 0 and (saved >= config.iterations or out_of_time)
    return RunState("finished" if done else "half done", saved, spent)


def _clock(config: TrainConfig) -> str:
    return "cpu_seconds" if config.clock == "cpu" else "seconds"


def check_folders(folder: pathlib.Path, runs: Sequence[PlannedRun]) -> None:
    """Refuses a sweep whose folder holds a run of another configuration.

    Args:
        folder: the sweep's.
        runs: as planned.

    Raises:
        ValueError: names the run and the fields in which it differs.
        CheckpointError: the run's config.json does not read.
    """
    for run in runs:
        place = folder / run.place
        if place.exists() and not place.is_dir():
            raise ValueError(f"{place} is a file; a run needs a folder")
        if not (place / CONFIG_FILE).exists():
            continue
        found = differences(run.config, read_config(place))
        if found:
            raise ValueError(
                f"the run in {place} is another: it has {'; '.join(found[:5])}. "
                "Choose another folder, or take the definition it was begun with"
            )


def train_command(run: PlannedRun, place: pathlib.Path, options: Sequence[str] = ()) -> list[str]:
    """The command that begins a run, or goes on with it; `options` are more of train.py's."""
    command = [sys.executable, str(_TRAIN), "--workdir", str(place), *options]
    if holds_run(place):
        return [*command, "--resume"]
    return [*command, "--preset", run.preset, "--seed", str(run.seed), *flags(run.fields)]


def lock(place: pathlib.Path) -> IO[str]:
    """Takes a run's folder for this process, until the file returned is closed everywhere.

    Raises:
        BusyError: another process has it.
    """
    place.mkdir(parents=True, exist_ok=True)
    file = (place / _LOCK_FILE).open("a")
    for wait in (0.1, 0.2, 0.4, 0.0):  # `is_locked` elsewhere holds it for a moment
        if _flock(file, shared=False):
            return file
        time.sleep(wait)
    file.close()
    raise BusyError(f"{place} is being run by another process")


def is_locked(place: pathlib.Path) -> bool:
    """Does a process run this folder?"""
    try:
        with (place / _LOCK_FILE).open("r") as file:
            return not _flock(file, shared=True)
    except OSError:
        return False


def _flock(file: IO[str], shared: bool) -> bool:
    """False where another process has the lock; True also where the system or the disk knows none."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def replace_process(run: PlannedRun, place: pathlib.Path, options: Sequence[str] = ()) -> int:
    """Turns this process into the run's training, so that a scheduler's signals reach it alone and once.

    It does not return but on Windows, where the training's exit status comes back.

    Raises:
        BusyError: another process runs it.
    """
    with lock(place) as file:
        command = train_command(run, place, options)
        sys.stdout.flush()
        if os.name == "posix":
            os.set_inheritable(file.fileno(), True)  # the lock stays with the training
            os.execv(command[0], command)
        return subprocess.call(command)


@dataclasses.dataclass
class _Active:
    """A training under way."""

    run: PlannedRun
    label: str
    process: subprocess.Popen
    slot: int
    lock: IO[str]
    started: float
    log_from: int  # bytes of the log that earlier tries wrote
    signals: int = 0  # sent to it


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How `run_all` ended.

    Attributes:
        failed: the runs that failed, or ended before their end, or that another process runs.
        stopped: whether a signal asked to stop.
    """

    failed: tuple[PlannedRun, ...]
    stopped: bool


def run_all(
    folder: pathlib.Path,
    runs: Sequence[PlannedRun],
    numbers: Sequence[int],
    slots: Sequence[Mapping[str, str]] = ({},),
    options: Sequence[str] = (),
) -> Outcome:
    """Trains runs, each in a process of its own, and prints how they go; a failing one stops no other.

    SIGINT and SIGTERM end it: the trainings save and stop after their iteration, at once when asked again.

    Args:
        folder: the sweep's.
        runs: that are not finished.
        numbers: their numbers in the sweep, for what is printed.
        slots: one run at a time in each, with these variables in its environment.
        options: more of train.py's.
    """
    waiting = deque(zip(numbers, runs, strict=True))
    free = list(range(len(slots)))[::-1]
    active: list[_Active] = []
    failed: list[PlannedRun] = []
    with _count_signals() as asked:
        while waiting or active:
            while waiting and free and not asked():
                number, run = waiting.popleft()
                label = f"[{number}] {run.place}"
                try:
                    active.append(_start(folder, run, label, options, free[-1], slots[free[-1]]))
                    free.pop()
                except BusyError as error:
                    print(f"{label}: left alone, {error}", flush=True)
                    failed.append(run)
            for training in active:
                while training.signals < asked():
                    training.signals += 1
                    training.process.send_signal(signal.SIGINT)
            for training in [training for training in active if training.process.poll() is not None]:
                active.remove(training)
                free.append(training.slot)
                training.lock.close()
                if not _tell_end(folder, training) and not asked():
                    failed.append(training.run)
            if asked() and not active:
                break
            time.sleep(0.05)
        return Outcome(tuple(sorted(failed, key=list(runs).index)), bool(asked()))


@contextlib.contextmanager
def _count_signals() -> Iterator[Any]:
    """A function that tells how often SIGINT or SIGTERM came."""
    count = 0

    def add(number, frame):
        nonlocal count
        count += 1

    with on_stop_signals(add):
        yield lambda: count


def _start(
    folder: pathlib.Path,
    run: PlannedRun,
    label: str,
    options: Sequence[str],
    slot: int,
    environment: Mapping[str, str],
) -> _Active:
    place = folder / run.place
    file = lock(place)
    command = train_command(run, place, options)
    path = place / LOG_FILE
    log_from = path.stat().st_size if path.exists() else 0
    verb = "goes on" if "--resume" in command else "begins"
    print(f"{label}: {verb}, its output in {path}", flush=True)
    with path.open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            start_new_session=True,  # Ctrl-C in a terminal reaches it through us, once
            pass_fds=(file.fileno(),) if os.name == "posix" else (),  # locked while it lives, whatever we do
        )
    return _Active(run, label, process, slot, file, time.monotonic(), log_from)


def _tell_end(folder: pathlib.Path, training: _Active) -> bool:
    """Prints how a training ended; True where the run is finished."""
    place = folder / training.run.place
    minutes, seconds = divmod(round(time.monotonic() - training.started), 60)
    state = run_state(place, training.run.config)
    if state.kind == "finished":
        print(f"{training.label}: finished, {minutes}:{seconds:02d}", flush=True)
        return True
    status = training.process.returncode
    if status == 0 or training.signals > 0:  # one that is still starting does not end with 0
        print(f"{training.label}: stopped, {state.describe(training.run.config)}", flush=True)
        return False
    print(f"{training.label}: failed with status {status}; the end of its output:", flush=True)
    with (place / LOG_FILE).open("rb") as log:
        log.seek(training.log_from)
        lines = log.read().decode(errors="replace").splitlines()
    for line in [line for line in lines if line.strip()][-_TAIL:]:
        print(f"    {line}", flush=True)
    return False
