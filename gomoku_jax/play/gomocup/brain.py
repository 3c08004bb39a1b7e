"""The agent behind the engine, in a thread that imports JAX, compiles and searches.

Everything heavy is imported in the thread. What goes in and out is plain numbers, which pass between
processes without NumPy: the engine runs this in another process, see `remote`.
"""

import dataclasses
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gomoku_jax.play.gomocup.board import STONES_IN_A_ROW, Board

if TYPE_CHECKING:
    from gomoku_jax.game import State
    from gomoku_jax.play.thinking import Analysis, Thinker

DEFAULT_ROOM = 8192  # simulations; larger trees fill slower on a CPU and take longer to clear
_SMALLEST_ROOM = 64
_SHARE_OF_MEMORY = 0.2  # of max_memory, for the tree; JAX itself takes a few hundred megabytes
_BYTES_OF_CHILD, _BYTES_OF_NODE = 16, 128


@dataclasses.dataclass(frozen=True)
class Setup:
    """What programs are compiled for.

    Attributes:
        height: rows.
        width: columns.
        rule: as of `Board`.
        room: simulations that the tree holds.
    """

    height: int
    width: int
    rule: str
    room: int


def room_for(points: int, max_memory: int, wanted: int = DEFAULT_ROOM) -> int:
    """Simulations that a tree has room for: a power of two, as each size is compiled once.

    Args:
        points: on the board.
        max_memory: bytes; 0 or less is no limit.
        wanted: simulations, where memory allows them.
    """
    most = wanted
    if max_memory > 0:
        most = min(wanted, int(max_memory * _SHARE_OF_MEMORY) // (points * _BYTES_OF_CHILD + _BYTES_OF_NODE))
    room = _SMALLEST_ROOM
    while room < wanted and 2 * room <= max(most, _SMALLEST_ROOM):
        room *= 2
    return room if room >= wanted or max_memory > 0 else 2 * room


@dataclasses.dataclass(frozen=True)
class Position:
    """A position as plain numbers.

    Attributes:
        stones: +1, -1, 0 of every action.
        to_play: +1 black, -1 white.
        last_action: -1 where there is none.
    """

    stones: tuple[int, ...]
    to_play: int
    last_action: int

    @classmethod
    def of(cls, board: Board) -> "Position":
        """The position on a board."""
        last = board.action(board.moves[-1][0]) if board.moves else -1
        return cls(tuple(board.cells[cell] for cell in board.points), board.to_play, last)


@dataclasses.dataclass(frozen=True)
class Job:
    """Positions to think about, one after another.

    Attributes:
        number: of the job.
        setup: the board, the rule and the tree.
        positions: what to look at.
        until: monotonic time, which all processes share, at which thinking about the last of them ends.
        simulations: most of them for each position; None is as many as the tree holds.
    """

    number: int
    setup: Setup
    positions: tuple[Position, ...]
    until: float
    simulations: int | None = None


@dataclasses.dataclass(frozen=True)
class Thought:
    """What a search has found so far; see `gomoku_jax.play.thinking.Analysis`.

    Attributes:
        action: the move it would play.
        value: of the position, from the view of the side to move.
        num_simulations: so far.
        seconds: so far.
        visits: of every action.
        prior: of every action.
        line: the most visited moves.
    """

    action: int
    value: float
    num_simulations: int
    seconds: float
    visits: tuple[int, ...]
    prior: tuple[float, ...]
    line: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Event:
    """What the brain tells the engine.

    Attributes:
        kind: "loaded" and "failed", with a text; "ready", with a Setup; "begun"; "thought", with a Thought;
            "done", with the last Thought of every position.
        job: the number of a job; None where it is about none.
        value: as said.
    """

    kind: str
    job: int | None = None
    value: Any = None


class Brain:
    """Chooses an agent, compiles for a board, and searches.

    Args:
        tell: is called with every event, from the brain's thread.
        agent: a path or a shipped agent's name; None chooses, see `gomoku_jax.play.choose`.
    """

    def __init__(self, tell: Callable[[Event], None], agent: str | None = None):
        self._tell, self._agent = tell, agent
        self._jobs: queue.SimpleQueue[Job | Setup] = queue.SimpleQueue()
        self._wanted: Setup | None = None
        self._thinkers: dict[tuple, Thinker] = {}
        self._compiled: set[Setup] = set()
        self._cancelled = 0  # jobs up to this number
        self._failed: set[tuple] = set()
        self._thread = threading.Thread(target=self._run, name="brain", daemon=True)
        self._started = False

    def is_ready(self, setup: Setup) -> bool:
        """Whether a search on this board begins at once."""
        return setup in self._compiled

    def prepare(self, setup: Setup) -> None:
        """Has programs compiled for a board, unless another is wanted before that begins."""
        if setup == self._wanted:
            return
        self._wanted = setup
        self._jobs.put(setup)
        if not self._started:
            self._started = True
            self._thread.start()

    def think(self, job: Job) -> None:
        """Has positions searched."""
        self.prepare(job.setup)
        self._jobs.put(job)

    def cancel(self, number: int) -> None:
        """Nothing waits any more for jobs up to this number."""
        self._cancelled = max(self._cancelled, number)

    def close(self) -> None:
        """Nothing runs outside this process."""

    def _run(self) -> None:
        try:
            import jax  # noqa: F401  the longest wait; what is wanted may change meanwhile

            from gomoku_jax.compilation import use_compilation_cache
            from gomoku_jax.play import thinking  # noqa: F401

            use_compilation_cache()
        except Exception as error:
            self._tell(Event("failed", None, f"no agent: {error!r}"))
            raise
        while True:
            task = self._jobs.get()
            if isinstance(task, Setup):
                if task == self._wanted:
                    self._ready(task)
            elif task.number > self._cancelled:
                self._work(task)

    def _work(self, job: Job) -> None:
        if not self._ready(job.setup):
            self._tell(Event("failed", job.number))
            return
        if job.number <= self._cancelled:
            return
        try:
            self._tell(Event("begun", job.number))
            thoughts = [self._search(job, position) for position in job.positions]
            self._tell(Event("done", job.number, thoughts))
        except Exception as error:
            self._tell(Event("failed", job.number, f"the search failed: {error!r}"))

    def _ready(self, setup: Setup) -> bool:
        board = (setup.height, setup.width, setup.rule)
        if setup in self._compiled or board in self._failed:
            return setup in self._compiled
        try:
            thinker = self._thinker(setup)
            empty = Position((0,) * (setup.height * setup.width), 1, -1)
            for _ in thinker.analyses(_state(setup, empty), simulations=1, room=setup.room):
                pass
        except Exception as error:
            self._failed.add(board)
            print(f"error: {error!r}", file=sys.stderr)
            self._tell(Event("failed", None, f"no agent for this board: {error}"))
            return False
        self._compiled.add(setup)
        self._tell(Event("ready", None, setup))
        return True

    def _thinker(self, setup: Setup) -> "Thinker":
        from gomoku_jax.game import Gomoku
        from gomoku_jax.play.choose import choose
        from gomoku_jax.play.thinking import Thinker

        key = (setup.height, setup.width, setup.rule)
        if key not in self._thinkers:
            game = Gomoku(setup.height, setup.width, STONES_IN_A_ROW, setup.rule)  # type: ignore[arg-type]
            choice = choose(self._agent, game)
            self._thinkers[key] = Thinker(choice.agent, game)
            self._tell(Event("loaded", None, choice.reason))
        return self._thinkers[key]

    def _search(self, job: Job, position: Position) -> Thought:
        seconds = max(1e-3, job.until - time.monotonic())
        thought = None
        thinker = self._thinkers[job.setup.height, job.setup.width, job.setup.rule]
        for analysis in thinker.analyses(
            _state(job.setup, position),
            simulations=min(job.simulations or job.setup.room, job.setup.room),
            seconds=seconds,
            interval=min(0.1, max(0.005, seconds / 10)),
            room=job.setup.room,
        ):
            thought = _thought(analysis)
            if job.number <= self._cancelled:
                break
            self._tell(Event("thought", job.number, thought))
        assert thought is not None  # the first analysis comes before any simulation
        return thought


def _thought(analysis: "Analysis") -> Thought:
    return Thought(
        action=int(analysis.action),
        value=analysis.value,
        num_simulations=analysis.num_simulations,
        seconds=analysis.seconds,
        visits=tuple(analysis.visits.tolist()),
        prior=tuple(analysis.prior.tolist()),
        line=analysis.candidates[0].line if analysis.candidates else (int(analysis.action),),
    )


def _state(setup: Setup, position: Position) -> "State":
    import jax.numpy as jnp
    import numpy as np

    from gomoku_jax.game import State

    board = np.array(position.stones, np.int8).reshape(setup.height, setup.width)
    return State(
        board=jnp.asarray(board),
        to_play=jnp.int8(position.to_play),
        last_action=jnp.int32(position.last_action),
        move_count=jnp.int32(np.count_nonzero(board)),
        terminated=jnp.bool_(False),
        winner=jnp.int8(0),
    )
