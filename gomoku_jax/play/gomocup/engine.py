"""The engine: reads commands, keeps the position and the clock, answers.

One loop over one queue of events: lines from the manager and findings of the brain. While the brain thinks
the loop goes on reading, and when time is over it answers with what there is.
"""

import collections
import dataclasses
import math
import queue
import time
from collections.abc import Callable
from typing import Protocol

from gomoku_jax.play.gomocup import clock, protocol
from gomoku_jax.play.gomocup.board import EMPTY, Board
from gomoku_jax.play.gomocup.brain import DEFAULT_ROOM, Event, Job, Position, Setup, Thought, room_for
from gomoku_jax.play.gomocup.fallback import Advice, advise, best_cell, fallback_cell
from gomoku_jax.play.gomocup.openings import openings_for
from gomoku_jax.play.gomocup.protocol import CommandError
from gomoku_jax.play.gomocup.remote import RemoteBrain

FIRST_WAIT = 2.4  # seconds that the first move waits for the agent to be loaded and compiled
LEAST_WAIT = 0.5  # a move with less time does not wait: compiling takes seconds, and keeps the machine busy
FIRST_ANSWER = 2.6  # seconds in which the first move is answered after a cold start
MESSAGE_SECONDS = 1.0  # between two MESSAGE lines of one search
_SWAP_SIMULATIONS = 64
_LARGEST_LATENESS = 0.25  # seconds; what is more was a stall, such as a suspended machine
_DECISIVE = 0.1  # SWAP2BOARD: a value nearer to 0 is too balanced to take a colour, and adds two stones
_EVALUATION_SCALE = 400  # of `ev`: the win probability is 1 / (1 + exp(-ev / scale)), as pygomo reads it
_LARGEST_EVALUATION = 4000


class Thinking(Protocol):
    """What the engine asks of a brain; `Brain` and `RemoteBrain` are such."""

    def is_ready(self, setup: Setup) -> bool: ...

    def prepare(self, setup: Setup) -> None: ...

    def think(self, job: Job) -> None: ...

    def cancel(self, number: int) -> None: ...

    def close(self) -> None: ...


@dataclasses.dataclass(eq=False)
class Pending:
    """An answer that is being thought about.

    Attributes:
        job: of the brain.
        asked: monotonic time of the command.
        deadline: monotonic time at which the answer goes out.
        hard: monotonic time at which it goes out once the search has begun.
        decide: gives the answer from the thoughts so far; none of them without a search.
        message: whether a MESSAGE line is told about the search.
    """

    job: Job
    asked: float
    deadline: float
    hard: float
    decide: Callable[[list[Thought]], None]
    message: bool = True
    so_far: list[Thought] = dataclasses.field(default_factory=list)
    told: float = 0.0  # monotonic time of the last MESSAGE


class Engine:
    """The protocol, without streams: events go into `events`, lines come out through `write`.

    Args:
        write: takes one line of an answer.
        agent: a path or a shipped agent's name; None chooses.
        simulations: most of them a move; None is as many as time and memory allow.
        version: for ABOUT.
        make_brain: what thinks, from the function that it tells its events and the agent.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        agent: str | None = None,
        simulations: int | None = None,
        version: str = "",
        make_brain: Callable[[Callable[[Event], None], str | None], Thinking] = RemoteBrain,
    ):
        self._write = write
        self._simulations = simulations
        self._version = version
        self.events: queue.SimpleQueue[tuple[str, object, float]] = queue.SimpleQueue()
        self._brain = make_brain(lambda event: self.events.put(("brain", event, time.monotonic())), agent)
        self.board: Board | None = None
        self.pending: Pending | None = None
        self._waiting: collections.deque[tuple[str, float]] = collections.deque()
        self._block: tuple[str, list[str]] | None = None  # BOARD and its lines so far
        self._limits = clock.Limits()
        self._max_memory = 0
        self._rule_code = 0
        self._own_moves = 0
        self._used = 0.0
        self._asked_before = False
        self._num_jobs = 0
        self._lateness = 0.0  # seconds that this process lately woke up after a deadline: a busy machine
        self._commands: dict[str, Callable[[str, float], None]] = {
            "START": lambda rest, when: self._start(protocol.parse_start, rest),
            "RECTSTART": lambda rest, when: self._start(protocol.parse_rectstart, rest),
            "RESTART": self._restart,
            "BEGIN": self._begin,
            "TURN": self._turn,
            "PLAY": self._play,
            "TAKEBACK": self._take_back,
        }

    # The loop.

    def run(self) -> int:
        """Handles events until END or the end of the input; gives the exit status."""
        try:
            while self.step():
                pass
        finally:
            self._brain.close()
        return 0

    def step(self) -> bool:
        """Handles one event, or the end of the time for a move; False at the end."""
        timeout = None if self.pending is None else max(0.0, self.pending.deadline - time.monotonic())
        try:
            kind, value, when = self.events.get(timeout=timeout)
        except queue.Empty:
            assert self.pending is not None
            late = time.monotonic() - self.pending.deadline
            self._lateness = min(_LARGEST_LATENESS, max(self._lateness, late))
            self._answer_now()
            return True
        if kind == "end":
            return False
        if kind == "brain":
            assert isinstance(value, Event)
            self._hear(value)
        elif not self._take_line(str(value), when):
            return False
        if self.pending is not None and time.monotonic() >= self.pending.deadline:
            self._answer_now()
        while self.pending is None and self._waiting:
            self._obey(*self._waiting.popleft())
        return True

    def _take_line(self, line: str, when: float) -> bool:
        word, rest = protocol.split(line)
        if word == "END":
            return False
        if self.pending is None:
            self._obey(line, when)
        elif word in ("STOP", "YXSTOP"):
            self._answer_now()
        elif word == "INFO" and not self._waiting:
            self._info(rest)
        elif word == "ABOUT" and not self._waiting:
            self._write(protocol.about(self._version))
        else:
            self._waiting.append((line, when))
        return True

    def _obey(self, line: str, when: float) -> None:
        """Handles a line while nothing is being thought about."""
        word, rest = protocol.split(line)
        if not word or word in ("STOP", "YXSTOP"):
            return
        try:
            if word == "INFO":
                self._info(rest)
            elif self._block is not None and word not in (*self._commands, *_BLOCKS, "ABOUT"):
                self._continue_block(line, word, when)
            else:
                if self._block is not None:
                    name, self._block = self._block[0], None
                    self._write(f"ERROR {name} without DONE; the position is as before")
                self._command(word, rest, when)
        except CommandError as error:
            self._write(f"ERROR {error}")

    def _command(self, word: str, rest: str, when: float) -> None:
        if word == "ABOUT":
            self._write(protocol.about(self._version))
        elif word in _BLOCKS:
            self._block = (word, [])
        elif word in self._commands:
            self._commands[word](rest, when)
        else:
            self._write(f"UNKNOWN command {protocol.echo(word)}")

    # Boards and settings.

    def _start(self, parse: Callable[[str], protocol.Size], rest: str) -> None:
        self.board = None
        size, rule = parse(rest), protocol.rule_name(self._rule_code)
        self.board = Board(size.width, size.height, rule)
        self._new_game()
        self._write("OK")

    def _restart(self, rest: str, when: float) -> None:
        board = self._playing()
        self.board = Board(board.width, board.height, board.rule)
        self._new_game()
        self._write("OK")

    def _new_game(self) -> None:
        self._own_moves, self._used = 0, 0.0
        self._limits = dataclasses.replace(self._limits, left=None)
        self._prepare()

    def _setup(self, board: Board) -> Setup:
        wanted = DEFAULT_ROOM if self._simulations is None else self._simulations
        room = room_for(len(board.points), self._max_memory, wanted)
        return Setup(board.height, board.width, board.rule, room)

    def _prepare(self) -> None:
        if self.board is not None:
            self._brain.prepare(self._setup(self.board))

    def _info(self, text: str) -> None:
        """INFO is never answered; what cannot be read is ignored."""
        key, _, value = text.partition(" ")
        number = protocol.parse_number(value)
        if number is None:
            return
        match key.lower():
            case "timeout_turn":
                self._limits = dataclasses.replace(self._limits, turn=number)
            case "timeout_match":
                self._limits = dataclasses.replace(self._limits, match=number)
            case "time_left":
                self._limits = dataclasses.replace(self._limits, left=number)
                self._used = 0.0
            case "max_memory":
                self._max_memory = number
                self._prepare()
            case "rule":
                self._rule_code = number
                if self.board is not None and number in protocol.RULES:
                    self.board.rule = protocol.RULES[number]
                    self.board.settle()
                    self._prepare()

    def _playing(self) -> Board:
        """The board of a game under a rule that is played here."""
        protocol.rule_name(self._rule_code)
        if self.board is None:
            raise CommandError("no board: START or RECTSTART comes first")
        return self.board

    def _cell(self, board: Board, x: int, y: int) -> int:
        if not (0 <= x < board.width and 0 <= y < board.height):
            raise CommandError(f"{x},{y} is not on the board of {board.width}x{board.height}")
        return board.cell((board.height - 1 - y) * board.width + x)

    def _free_cell(self, board: Board, rest: str) -> int:
        x, y = protocol.parse_point(rest)
        cell = self._cell(board, x, y)
        if board.over:
            raise CommandError("the game is over")
        if board.cells[cell] != EMPTY:
            raise CommandError(f"{x},{y} is taken")
        return cell

    def _name(self, board: Board, cell: int) -> str:
        row, col = divmod(board.action(cell), board.width)
        return f"{col},{board.height - 1 - row}"

    # Moves.

    def _begin(self, rest: str, when: float) -> None:
        board = self._playing()
        if board.moves:
            raise CommandError("BEGIN is for the empty board: use TURN or BOARD")
        self._move(board, when)

    def _turn(self, rest: str, when: float) -> None:
        board = self._playing()
        board.play(self._free_cell(board, rest))
        self._move(board, when)

    def _play(self, rest: str, when: float) -> None:
        board = self._playing()
        cell = self._free_cell(board, rest)
        board.play(cell)
        self._write(self._name(board, cell))

    def _take_back(self, rest: str, when: float) -> None:
        board = self._playing()
        x, y = protocol.parse_point(rest)
        cell = self._cell(board, x, y)
        if board.cells[cell] == EMPTY:
            raise CommandError(f"{x},{y} is empty")
        if board.cells[cell] == board.to_play:
            raise CommandError(f"{x},{y} is not of the side that moved last")
        board.remove(cell)
        self._write("OK")

    def _continue_block(self, line: str, word: str, when: float) -> None:
        assert self._block is not None
        name, lines = self._block
        if word != "DONE":
            lines.append(line)
            return
        self._block = None
        if name == "SWAP2BOARD":
            self._swap(lines, when)
            return
        board = self._read_board(lines)
        self.board = board
        if name == "BOARD":
            self._move(board, when)

    def _read_board(self, lines: list[str]) -> Board:
        """The position of BOARD's lines, the opponent's last line being the last move.

        The order of moves is not known. Field 3 is for continuous games, which are not played here, and for
        renju's forbidden points, which the rules tell as well.
        """
        current = self._playing()
        board = Board(current.width, current.height, current.rule)
        cells: dict[int, int] = {}
        for line in lines:
            x, y, field = protocol.parse_stone(line)
            cell = self._cell(board, x, y)
            if field == 3 and board.rule == "renju":
                continue
            if field not in (1, 2):
                allowed = "1 (own) or 2 (opponent); 3 is for continuous games, not played here"
                raise CommandError(f"{protocol.echo(line)}: the field is {allowed}")
            if cell in cells:
                raise CommandError(f"{x},{y} twice on the board")
            cells[cell] = field
        own = [cell for cell, field in cells.items() if field == 1]
        others = [cell for cell, field in cells.items() if field == 2]
        # Black moves first: with as many stones it is black's turn, with one more of theirs it is white's.
        if not len(own) <= len(others) <= len(own) + 1:
            raise CommandError(
                f"{len(own)} own stones and {len(others)} of the opponent: it cannot be our turn to move"
            )
        own_color = 1 if len(own) == len(others) else -1
        # Placed in turns, the opponent's last.
        for i in range(len(own)):
            first, second = (own[i], others[i]) if own_color == 1 else (others[i], own[i])
            board.place(first, 1)
            board.place(second, -1)
        if own_color == -1:
            board.place(others[-1], 1)
        return board

    def _move(self, board: Board, when: float) -> None:
        """Thinks about a move and answers it."""
        if board.over:
            full = "the board is full" if not board.empty else "the game is over: every point is forbidden"
            raise CommandError("the game is over" if board.winner else full)
        advice = advise(board)
        if advice.kind in ("win", "block", "open four") or len(board.legal) == 1:
            self._play_own(board, best_cell(board, advice.cells), when)
            return

        def decide(thoughts: list[Thought]) -> None:
            self._play_own(board, _chosen(board, advice, thoughts), when)

        time_for = clock.budget(self._limits, self._own_moves, len(board.empty), self._used)
        self._think(board, (Position.of(board),), time_for, when, decide, self._simulations)

    def _play_own(self, board: Board, cell: int, when: float) -> None:
        board.play(cell)
        self._own_moves += 1
        self._used += time.monotonic() - when
        self._write(self._name(board, cell))

    def _think(
        self,
        board: Board,
        positions: tuple[Position, ...],
        time_for: clock.Budget,
        when: float,
        decide: Callable[[list[Thought]], None],
        simulations: int | None,
        message: bool = True,
    ) -> None:
        setup = self._setup(board)
        ready = self._brain.is_ready(setup)
        hard = max(0.0, time_for.hard - self._lateness)
        self._lateness *= 0.8  # one stall is soon forgotten
        soft = min(time_for.soft, hard)
        first, self._asked_before = not self._asked_before, True
        wait = soft
        if first and not ready:
            soft, hard = min(soft, FIRST_ANSWER - 0.1), min(hard, FIRST_ANSWER)
            wait = min(soft, FIRST_WAIT)
        self._num_jobs += 1
        job = Job(self._num_jobs, setup, positions, when + soft, simulations)
        if wait < LEAST_WAIT:
            wait = 0.0
        deadline = when + (hard if ready else min(hard, wait))
        self.pending = Pending(job, when, deadline, when + hard, decide, message)
        if deadline <= time.monotonic():
            self._answer_now()
        else:
            self._brain.think(job)

    def _answer_now(self) -> None:
        """Answers what is pending, with the best so far."""
        pending, self.pending = self.pending, None
        if pending is None:
            return
        self._brain.cancel(pending.job.number)
        if pending.so_far and pending.message and self.board is not None:
            self._write(_message(self.board, pending.so_far[-1]))
        try:
            pending.decide(pending.so_far)
        except CommandError as error:
            self._write(f"ERROR {error}")

    def _hear(self, event: Event) -> None:
        """What the brain has found."""
        if event.kind in ("loaded", "failed") and event.value:
            self._write("MESSAGE " + " ".join(str(event.value).split()))
        pending = self.pending
        if pending is None or event.job != pending.job.number:
            if event.kind == "failed" and event.job is None and pending is not None:
                self._answer_now()  # there is nothing to wait for
            return
        if event.kind == "begun":
            pending.deadline, pending.told = pending.hard, time.monotonic()
        elif event.kind == "thought" and len(pending.job.positions) == 1:
            pending.so_far = [event.value]
            if (
                pending.message
                and self.board is not None
                and time.monotonic() - pending.told >= MESSAGE_SECONDS
            ):
                pending.told = time.monotonic()
                self._write(_message(self.board, event.value))
        elif event.kind == "done":
            pending.so_far = event.value
            self._answer_now()
        elif event.kind == "failed":
            self._answer_now()

    # SWAP2BOARD: three stones, then a choice of colour, two stones more, or a move.

    def _swap(self, lines: list[str], when: float) -> None:
        current = self._playing()
        board = Board(current.width, current.height, current.rule)
        for line in lines:
            x, y, _ = protocol.parse_stone(line)
            cell = self._cell(board, x, y)
            if board.cells[cell] != EMPTY:
                raise CommandError(f"{x},{y} twice on the board")
            board.play(cell)
        if len(board.moves) not in (0, 3, 5):
            raise CommandError(f"SWAP2BOARD with {len(board.moves)} stones: 0, 3 or 5")
        if board.over:
            raise CommandError("the game is over")
        self.board = board
        time_for = clock.budget(self._limits, self._own_moves, len(board.empty), self._used)
        if not board.moves:
            self._swap_opening(board, time_for, when)
        else:
            self._swap_choice(board, time_for, when)

    def _swap_opening(self, board: Board, time_for: clock.Budget, when: float) -> None:
        """Three stones after which neither side is better, as far as the agent sees."""
        openings = openings_for(board)

        def decide(thoughts: list[Thought]) -> None:
            chosen = openings[0]
            if len(thoughts) == len(openings):
                chosen = min(zip(openings, thoughts, strict=True), key=lambda pair: abs(pair[1].value))[0]
            for cell in chosen:
                board.play(cell)
            self._write(" ".join(self._name(board, cell) for cell in chosen))

        positions = []
        for opening in openings:
            after = Board(board.width, board.height, board.rule)
            for cell in opening:
                after.play(cell)
            positions.append(Position.of(after))
        self._think(board, tuple(positions), time_for, when, decide, _SWAP_SIMULATIONS, message=False)

    def _swap_choice(self, board: Board, time_for: clock.Budget, when: float) -> None:
        """White is to move: stay white with a move, SWAP to black, or, of three stones, add two."""
        may_add = len(board.moves) == 3
        advice = advise(board)

        def decide(thoughts: list[Thought]) -> None:
            # Without a search black is taken: it has the stone more.
            value = thoughts[-1].value if thoughts else -1.0
            if abs(value) < _DECISIVE and may_add:
                first = _chosen(board, advice, thoughts)
                board.play(first)
                second = fallback_cell(board)
                board.play(second)
                self._write(f"{self._name(board, first)} {self._name(board, second)}")
            elif value < 0:
                self._write("SWAP")
            else:
                self._play_own(board, _chosen(board, advice, thoughts), when)

        self._think(board, (Position.of(board),), time_for, when, decide, self._simulations)


_BLOCKS = ("BOARD", "YXBOARD", "SWAP2BOARD")


def _chosen(board: Board, advice: Advice, thoughts: list[Thought]) -> int:
    """The search's move among those that are allowed; without a search, the fallback's."""
    if not thoughts:
        return fallback_cell(board, advice)
    thought = thoughts[-1]
    if not advice.cells:
        return board.cell(thought.action)
    allowed = [(cell, board.action(cell)) for cell in advice.cells]
    best = max(thought.visits[action] for _, action in allowed)
    if best > 0:
        return max(allowed, key=lambda pair: (thought.visits[pair[1]], thought.prior[pair[1]]))[0]
    return fallback_cell(board, advice)


def _message(board: Board, thought: Thought) -> str:
    """MESSAGE with depth, evaluation, nodes, speed, time and line, in the form that clients read."""
    line = thought.line
    names = " ".join(f"{chr(ord('a') + action % board.width)}{action // board.width + 1}" for action in line)
    nodes = thought.num_simulations
    milliseconds = max(1, round(1000 * thought.seconds))
    return (
        f"MESSAGE depth {len(line)}-{len(line)} ev {evaluation(thought.value)} n {nodes} "
        f"n/ms {round(nodes / milliseconds)} tm {milliseconds} pv {names}"
    )


def evaluation(value: float) -> int:
    """A value in [-1, 1] as the protocol's clients write one: 0 is even, 400 a win probability of 73 %."""
    probability = (1 + value) / 2
    if probability <= 0 or probability >= 1:
        return round(math.copysign(_LARGEST_EVALUATION, value))
    points = _EVALUATION_SCALE * math.log(probability / (1 - probability))
    return round(max(-_LARGEST_EVALUATION, min(_LARGEST_EVALUATION, points)))
