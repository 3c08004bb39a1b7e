"""The brain in a process of its own.

Importing JAX and tracing hold Python's interpreter lock for a tenth of a second and more at a time, in which
the engine could neither read nor keep the clock; and if XLA runs out of memory, the engine plays on.
"""

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

from gomoku_jax.play.gomocup.brain import Brain, Event, Job, Setup

_SERVE = "from gomoku_jax.play.gomocup.remote import serve; serve()"


class RemoteBrain:
    """`Brain`, in another process, which starts with the first board.

    Args:
        tell: is called with every event, from a thread.
        agent: a path or a shipped agent's name; None chooses.
    """

    def __init__(self, tell: Callable[[Event], None], agent: str | None = None):
        self._tell, self._agent = tell, agent
        self._ready: set[Setup] = set()
        self._wanted: Setup | None = None
        self._process: subprocess.Popen | None = None
        self._ended = False
        self._outbox: queue.SimpleQueue[tuple] = queue.SimpleQueue()

    def is_ready(self, setup: Setup) -> bool:
        """Whether a search on this board begins at once."""
        return setup in self._ready and not self._ended

    def prepare(self, setup: Setup) -> None:
        """Has programs compiled for a board, unless another is wanted before that begins."""
        if setup != self._wanted:
            self._wanted = setup
            self._send("prepare", setup)

    def think(self, job: Job) -> None:
        """Has positions searched."""
        self._wanted = job.setup
        if self._ended:
            self._tell(Event("failed", job.number))
        else:
            self._send("think", job)

    def cancel(self, number: int) -> None:
        """Nothing waits any more for jobs up to this number."""
        self._send("cancel", number)

    def close(self) -> None:
        """Kills the process."""
        if self._process is not None:
            self._process.kill()

    def _send(self, *message) -> None:
        if self._process is None:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            except OSError as error:
                self._ended = True
                self._tell(Event("failed", None, f"no agent: {error}"))
                return
            for target in (self._read, self._write):
                threading.Thread(target=target, daemon=True).start()
            self._outbox.put(("agent", self._agent))
        self._outbox.put(message)

    def _write(self) -> None:
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            while True:
                pickle.dump(self._outbox.get(), self._process.stdin)
                self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError, EOFError, pickle.UnpicklingError):
            while True:
                event = pickle.load(self._process.stdout)
                if event.kind == "ready":
                    self._ready.add(event.value)
                self._tell(event)
        self._ended = True
        self._tell(Event("failed", None, "the agent's process has ended; playing without it"))


def serve() -> None:
    """The other end: reads messages from stdin and writes events to stdout until stdin is closed."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever libraries print goes to stderr
    lock = threading.Lock()

    def tell(event: Event) -> None:
        try:
            with lock:
                pickle.dump(event, out)
                out.flush()
        except OSError:
            os._exit(0)

    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        _serve(sys.stdin.buffer, tell)
    os._exit(0)  # XLA may be compiling in a thread that nothing stops


def _serve(messages: BinaryIO, tell: Callable[[Event], None]) -> None:
    _, agent = pickle.load(messages)
    brain = Brain(tell, agent)
    while True:
        kind, value = pickle.load(messages)
        {"prepare": brain.prepare, "think": brain.think, "cancel": brain.cancel}[kind](value)
