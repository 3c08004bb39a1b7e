"""Several processes that run one program together, on one machine or many, by `jax.distributed`.

Every process runs the same script. Only the first writes logs, metrics and agents; all take part in
checkpoints. What a process decides by its own clock or signals is agreed on, so that all take the same way.

A process that is lost takes the run with it: JAX's coordinator notices, and the others end. Some of them end
inside JAX's C++ code, where no Python runs any more; so each process has a small companion that says what
happened and how to go on (`Companion`).
"""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Self, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from gomoku_jax.metrics import Clock
from gomoku_jax.sharding import all_processes

LOST_STATUS = 75  # exit status after the loss of another process: try again (EX_TEMPFAIL of sysexits.h)
_START_SECONDS = 300  # until all processes must have come

_OUR_OWN_STATUSES = ("RESOURCE_EXHAUSTED", "INVALID_ARGUMENT", "UNIMPLEMENTED")  # nobody else's fault

T = TypeVar("T")


class LostProcessError(RuntimeError):
    """Another process of the run is gone; this one cannot go on."""


class RefusedError(RuntimeError):
    """The first process refused to start or to go on; it has said why."""


def start(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process: int | None = None,
    heartbeat_seconds: int = 60,
) -> None:
    """Joins the other processes; before anything else of JAX.

    Args:
        coordinator: HOST:PORT of the first process; None takes it, and the rest, from the environment of the
            cluster: SLURM, Kubernetes with GKE, Open MPI, or TPU.
        num_processes: P; given with `coordinator`.
        process: which of them this is, from 0; given with `coordinator`.
        heartbeat_seconds: how long a process may be silent until the others give it up.

    Raises:
        ValueError: a value that cannot be, or nothing in the environment to go by.
    """
    given = [coordinator, num_processes, process]
    if any(value is not None for value in given) and None in given:
        raise ValueError(
            f"coordinator = {coordinator}, processes = {num_processes}, process = {process}: give all three, "
            "or none and let the cluster's environment say"
        )
    if coordinator is not None:
        host, _, port = coordinator.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"coordinator = {coordinator!r}: HOST:PORT, such as 10.0.0.1:8476")
        assert num_processes is not None and process is not None
        if not 0 <= process < num_processes:
            raise ValueError(f"process = {process}: from 0 to processes - 1 = {num_processes - 1}")
    # JAX's own handler of SIGTERM would take the place of training's.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            coordinator,
            num_processes,
            process,
            initialization_timeout=_START_SECONDS,
            heartbeat_timeout_seconds=heartbeat_seconds,
        )
    except ValueError as error:
        raise ValueError(f"no coordinator given, and no cluster's environment here ({error})") from error


def is_main() -> bool:
    """Whether this is the process that writes."""
    return jax.process_index() == 0


def is_loss(error: Exception) -> bool:
    """Whether an error is what JAX raises where another process does not answer any more.

    Some of these are JaxRuntimeErrors, some ValueErrors; all begin with the name of a status.
    """
    status = re.match(r"[A-Z]+(_[A-Z]+)*(?=:)", str(error))
    return jax.process_count() > 1 and status is not None and status[0] not in _OUR_OWN_STATUSES


def wait_for_all(name: str) -> None:
    """Returns when all processes have come here."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


def any_process(flag: bool) -> bool:
    """Whether it is so on any process; the same answer on all. A collective."""
    return bool(all_processes(np.asarray(flag, np.int32)).any())


def shared_time(clock: Clock) -> tuple[float, float]:
    """Wall and CPU seconds of a step that all processes took: the longest, and the sum. A collective."""
    times = all_processes(np.asarray([clock.seconds, clock.cpu_seconds], np.float32))
    if len(times) == 1:
        return clock.seconds, clock.cpu_seconds
    return float(times[:, 0].max()), float(times[:, 1].sum())


def main_first(work: Callable[[], T]) -> T | None:
    """Runs `work` on the first process, while the others wait; they get None.

    Raises:
        RefusedError: on the others, where it raised. On the first its own exception goes on.
    """
    if jax.process_count() == 1:
        return work()
    failure: BaseException | None = None
    result = None
    if is_main():
        try:
            result = work()
        except Exception as error:
            failure = error
    refused = any_process(failure is not None)
    if failure is not None:
        raise failure
    if refused:
        raise RefusedError("process 0 has stopped the run; it says why")
    return result


def end(status: int) -> None:
    """Ends the process at once, past the barrier at which JAX would wait for the others."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


# What the companion runs: plain Python, without JAX.
_COMPANION = """
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
process, place = sys.argv[1:]
last = "none yet"
for line in sys.stdin:
    word, _, rest = line.strip().partition(" ")
    if word == "end":
        sys.exit()
    last = rest
sys.stderr.write(
    f"error: process {process} of the run ended without warning: it was killed, or another process was lost. "
    f"Newest whole checkpoint in {place}: {last}. Start all processes again with --resume.\\n"
)
"""


class Companion:
    """Says what happened if this process ends without a word.

    It waits on a pipe whose other end closes with this process, however that ends. For runs of several
    processes; a lone one has nobody to wait for it.

    Args:
        place: the run folder, for the message.
    """

    def __init__(self, place: os.PathLike[str] | str):
        self._process: subprocess.Popen[str] | None = None
        if jax.process_count() > 1:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-c", _COMPANION, str(jax.process_index()), str(place)],
                stdin=subprocess.PIPE,
                text=True,
                start_new_session=True,  # what ends the job's terminal must not end it first
            )

    def _say(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()

    def checkpoint(self, iteration: int) -> None:
        """There is a checkpoint of this iteration."""
        self._say(f"checkpoint iteration {iteration}")

    def close(self) -> None:
        """All is said: the companion goes without a word."""
        self._say("end")
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close()
