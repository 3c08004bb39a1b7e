"""The process and its machine: cores, and the signals that ask to stop."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def on_stop_signals(handle: Callable[[int, Any], None]) -> Iterator[None]:
    """SIGINT (Ctrl-C) and SIGTERM call `handle(number, frame)` while this lasts; in the main thread only."""
    try:
        old = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread, where no handler can be set
        old = {}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
