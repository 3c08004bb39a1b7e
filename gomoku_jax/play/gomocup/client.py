"""Other programs as players: engines that speak the Gomocup protocol, as processes of their own."""

import collections
import contextlib
import os
import pathlib
import queue
import re
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence

from gomoku_jax.agent import AgentError
from gomoku_jax.game import Gomoku, IllegalMoveError, format_action
from gomoku_jax.openings import Choice
from gomoku_jax.play.gomocup.board import STONES_IN_A_ROW
from gomoku_jax.play.gomocup.protocol import RULES
from gomoku_jax.play.opponents import ForfeitError
from gomoku_jax.play.record import GameRecord

START_SECONDS = 30.0  # an engine may load its network before it answers START
GRACE_SECONDS = 0.5  # beyond the time for a move, for pipes and a busy machine
_QUEUED_LINES = 10_000  # an engine that writes more without being read has lost
_KEPT_LINES = 5  # of stderr, for the reason of a forfeit
_LONGEST_LINE = 65_536  # bytes
_RULE_CODES = {rule: code for code, rule in RULES.items()}
_ANSWER = re.compile(r"\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*", re.ASCII)


class EnginePlayer:
    """An engine outside, which plays one game at a time.

    The process starts with the first game and is asked to RESTART for the next ones. After a crash, a
    time-out, an illegal move or a refused RESTART it is killed, and a new one plays the next game.

    Args:
        path: an executable file, or a command line such as "gomoku-jax gomocup --agent 6x6x4".
        game: the board, with five in a row.
        seconds: for each move.
        grace: seconds beyond that before the move is lost.

    Raises:
        AgentError: no such executable.
        ValueError: another number in a row than the protocol knows, or no time.
    """

    def __init__(self, path: str, game: Gomoku, seconds: float = 5.0, grace: float = GRACE_SECONDS):
        if game.k != STONES_IN_A_ROW:
            raise ValueError(f"engines of the Gomocup protocol play five in a row only, not {game}")
        if game.opening != "free":
            raise ValueError(f"the Gomocup protocol has no word for the {game.opening} opening")
        if not 0 < seconds <= 86400:
            raise ValueError(f"seconds = {seconds}: more than 0, and at most a day")
        self._command = find_engine(path)
        self._game, self._seconds, self._grace = game, seconds, grace
        self._process: _Process | None = None
        self._known: list[int] | None = None  # moves of the game that the engine knows; None before a game
        self.name = f"gomocup:{path}"
        self.opener = EngineOpener(self)
        self._told: int | None = None  # White's move that came with its choice

    def new_game(self) -> None:
        """The engine forgets the last game; a process that failed is replaced when its move is asked."""
        self._known = self._told = None

    def choose(self, record: GameRecord) -> int:
        """The engine's move.

        Raises:
            ForfeitError: it crashed, ran out of time or played an illegal move.
        """
        told, self._told = self._told, None
        if told is not None:
            return told
        try:
            process = self._ready()
            if self._known:
                process.forget_answers()
            moves = list(record.moves)
            for line in self._question(moves):
                process.write(line)
            action = self._answer(process, time.monotonic() + self._seconds + self._grace)
            if action not in record.legal_actions:
                raise ForfeitError(f"illegal move {format_action(self._game, action)}")
        except ForfeitError as error:
            raise ForfeitError(f"{self.name}: {error}{self._stop()}") from None
        self._known = [*moves, action]
        return action

    def swap2(self, stones: Sequence[int]) -> Choice:
        """What the engine answers to SWAP2BOARD with 0, 3 or 5 stones.

        Returns:
            Its choice; without stones "add" with the three that it places.

        Raises:
            ForfeitError: it crashed, ran out of time or answered something else.
        """
        try:
            process = self._ready()
            process.forget_answers()
            for line in ("SWAP2BOARD", *map(self._point, stones), "DONE"):
                process.write(line)
            line = process.read(time.monotonic() + self._seconds + self._grace)
            if line.strip().upper() == "SWAP":
                choice = Choice("black")
            else:
                points = tuple(self._action(point) for point in line.split())
                choice = Choice("white" if len(points) == 1 else "add", points)
            allowed = {0: {3}, 3: {0, 1, 2}, 5: {0, 1}}[len(stones)]
            if len(choice.stones) not in allowed:
                raise ForfeitError(f"it answered {line[:100]!r} to SWAP2BOARD with {len(stones)} stones")
            board = GameRecord(self._game, stones)
            for move in choice.stones:
                board.play(move)
        except (ForfeitError, IllegalMoveError) as error:
            raise ForfeitError(f"{self.name}: {error}{self._stop()}") from None
        # Its own board is as it left it; moves come as BOARD, which says it all again.
        self._known = []
        self._told = choice.stones[0] if choice.kind == "white" else None
        return choice

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def _ready(self) -> "_Process":
        """A process that has been told the board and the rule, with no stones on it."""
        game = self._game
        if self._process is not None and self._known is not None:
            return self._process
        if self._process is not None:
            try:
                self._ask_ok(self._process, "RESTART")
            except ForfeitError:  # an optional command, and some engines end after a game
                self._stop()
        if self._process is None:
            self._process = _Process(self._command)
            square = game.height == game.width
            # The rule goes first, for engines that set up their board by it.
            self._process.write(f"INFO rule {_RULE_CODES[game.rule]}")
            self._ask_ok(
                self._process, f"START {game.width}" if square else f"RECTSTART {game.width},{game.height}"
            )
        for key, value in (
            ("timeout_turn", round(1000 * self._seconds)),
            ("timeout_match", 0),
            ("time_left", 2_147_483_647),
            ("max_memory", 0),
            ("game_type", 1),
            ("rule", _RULE_CODES[game.rule]),
        ):
            self._process.write(f"INFO {key} {value}")
        self._known = []
        return self._process

    def _ask_ok(self, process: "_Process", line: str) -> None:
        """Sends a line that OK answers."""
        process.write(line)
        answer = process.read(time.monotonic() + START_SECONDS)
        if answer.split(" ")[0].upper() != "OK":
            raise ForfeitError(f"it does not play {self._game}: it answered {answer[:100]!r}")

    def _question(self, moves: list[int]) -> list[str]:
        """What to ask: BEGIN or TURN where the engine knows the game up to the last move, else BOARD."""
        if not moves:
            return ["BEGIN"]
        if self._known == moves[:-1] and (self._known or len(moves) == 1):
            return [f"TURN {self._point(moves[-1])}"]
        # The engine's own stones are those of the side to move.
        stones = [
            f"{self._point(action)},{1 if (len(moves) - i) % 2 == 0 else 2}" for i, action in enumerate(moves)
        ]
        return ["BOARD", *stones, "DONE"]

    def _point(self, action: int) -> str:
        """`x,y`: y counts from the top."""
        row, col = divmod(action, self._game.width)
        return f"{col},{self._game.height - 1 - row}"

    def _answer(self, process: "_Process", deadline: float) -> int:
        return self._action(process.read(deadline))

    def _action(self, line: str) -> int:
        """The action of a move's line, or of one of several points."""
        match = _ANSWER.fullmatch(line)
        if match is None:
            raise ForfeitError(f"it answered {line[:100]!r} where a move x,y is due")
        x, y = int(match[1]), int(match[2])
        if x >= self._game.width or y >= self._game.height:
            raise ForfeitError(f"illegal move {x},{y}: not on the board")
        return (self._game.height - 1 - y) * self._game.width + x

    def _stop(self) -> str:
        """Kills the process; what it last said on stderr."""
        self._known = None
        if self._process is None:
            return ""
        process, self._process = self._process, None
        process.kill()
        said = process.last_errors()
        return f" (stderr: {said})" if said else ""


class EngineOpener:
    """An engine's part in swap2, by SWAP2BOARD."""

    def __init__(self, engine: EnginePlayer):
        self._engine = engine

    def check(self, swap: str) -> None:
        """Raises ValueError where the protocol has no command for it."""
        if swap != "swap2":
            raise ValueError(f"swap = {swap!r}: the Gomocup protocol has swap2 only")

    def propose(self) -> tuple[int, ...]:
        """Its three stones."""
        return self._engine.swap2(()).stones

    def choose(self, stones: Sequence[int], may_add: bool) -> Choice:
        """Its choice; White's move is kept until it is asked for."""
        return self._engine.swap2(stones)


def find_engine(path: str) -> list[str]:
    """The command line of an engine.

    Raises:
        AgentError: no such file, or none that can be executed.
    """
    if pathlib.Path(path).is_file():
        command = [str(pathlib.Path(path).absolute())]
    else:
        try:
            command = shlex.split(path)
        except ValueError as error:
            raise AgentError(f"engine {path!r}: {error}") from None
    if not command:
        raise AgentError("gomocup: needs the path of an engine, such as gomocup:engines/pbrain")
    found = shutil.which(command[0])
    if found is None:
        reason = "cannot be executed" if pathlib.Path(command[0]).exists() else "no such program"
        raise AgentError(f"engine {command[0]!r}: {reason}")
    return [os.path.abspath(found), *command[1:]]


class _Process:
    """An engine's process, with threads that read and write so that it cannot block us."""

    def __init__(self, command: list[str]):
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,  # a buffer's lock would be held by its reader, and block who closes it
                start_new_session=True,  # so that a wrapper's children can be killed with it
            )
        except OSError as error:
            raise ForfeitError(f"it does not start: {error}") from None
        self._answers: queue.Queue[str | None] = queue.Queue(_QUEUED_LINES)
        self._questions: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._errors: collections.deque[str] = collections.deque(maxlen=_KEPT_LINES)
        self._flooded = False
        self._threads = [
            threading.Thread(target=target, daemon=True)
            for target in (self._read_answers, self._read_errors, self._write_questions)
        ]
        for thread in self._threads:
            thread.start()

    def write(self, line: str) -> None:
        """Sends a line, without waiting until it is read."""
        self._questions.put(line)

    def forget_answers(self) -> None:
        """Drops lines that nobody has asked for, such as a second move; not the process's end."""
        while True:
            try:
                line = self._answers.get_nowait()
            except queue.Empty:
                return
            if line is None:
                self._answers.put(None)
                return

    def read(self, deadline: float) -> str:
        """The next line that is an answer, before a monotonic time.

        Raises:
            ForfeitError: none came, or the process has ended.
        """
        while True:
            try:
                line = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise ForfeitError("out of time") from None
            if line is None:
                if self._flooded:
                    raise ForfeitError("it writes without end")
                status = self._wait(1.0)
                how = "closed its output" if status is None else f"ended with status {status}"
                raise ForfeitError(f"crashed: it {how}")
            word = line.split(" ")[0].upper()
            if word in ("ERROR", "UNKNOWN"):
                raise ForfeitError(f"it answered {line[:200]!r}")
            if word not in ("MESSAGE", "DEBUG", "SUGGEST", ""):
                return line
            if time.monotonic() > deadline:
                raise ForfeitError("out of time")

    def last_errors(self) -> str:
        """The last lines of stderr."""
        return " | ".join(self._errors)[-500:]

    def end(self) -> None:
        """Asks the process to end, and kills it where it does not."""
        self.write("END")
        self._wait(1.0)
        self.kill()

    def kill(self) -> None:
        """Kills the process and those that it has started, and reaps it."""
        try:
            os.killpg(self._process.pid, 9)
        except (ProcessLookupError, PermissionError):
            self._process.kill()
        self._process.wait()
        self._questions.put(None)
        for thread in self._threads:
            thread.join(1.0)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def _wait(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _lines(self, pipe):
        """Lines of a pipe, cut where they are too long."""
        while data := pipe.readline(_LONGEST_LINE):
            yield data.decode("utf-8", "replace").strip()

    def _read_answers(self) -> None:
        try:
            for line in self._lines(self._process.stdout):
                self._answers.put_nowait(line)
        except queue.Full:
            self._flooded = True
            try:
                os.killpg(self._process.pid, 9)
            except OSError:
                self._process.kill()
            self._answers.get_nowait()
        except (OSError, ValueError):
            pass
        self._answers.put(None)

    def _read_errors(self) -> None:
        try:
            for line in self._lines(self._process.stderr):
                if line:
                    self._errors.append(line[:200])
        except (OSError, ValueError):
            pass

    def _write_questions(self) -> None:
        assert self._process.stdin is not None
        while (line := self._questions.get()) is not None:
            try:
                self._process.stdin.write(line.encode() + b"\r\n")
                self._process.stdin.flush()
            except (OSError, ValueError):
                return
