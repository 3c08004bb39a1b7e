"""One game in the terminal: turns, commands, endings."""

import dataclasses
import pathlib
import re
import sys
import time
from collections.abc import Callable

import rich.console

from gomoku_jax.agent import AgentError
from gomoku_jax.game import Gomoku, IllegalMoveError, format_action, format_moves
from gomoku_jax.openings import FIRST, SECOND, SwapOpening
from gomoku_jax.play.files import FORMATS, GameFile, file_format, outcome, save_file, write_game
from gomoku_jax.play.opponents import AgentPlayer, ForfeitError, HostPlayer, Limit
from gomoku_jax.play.record import GameRecord
from gomoku_jax.play.terminal_display import (
    COLORS,
    STONES,
    board_text,
    colorful,
    hint_text,
    is_interactive,
    line_text,
    thought_text,
)
from gomoku_jax.play.thinking import DEFAULT_SIMULATIONS, MAX_SIMULATIONS, Analysis, Thinker

HELP = """moves:
  h8          column h, row 8; row 1 is at the bottom
  8,8         row,column, both from 1, row 1 at the bottom and column 1 at the left: 1,3 is c1
commands:
  undo        take back your last move, and the machine's answer to it
  redo        play again what was taken back
  hint        the best moves that the agent sees
  resign      give the game up
  save FILE   write the game: .sgf, .psq (Piskvork) or .txt (its move string)
  board       show the board again
  moves       show the game as a move string
  new         begin again
  help        this
  quit        leave; so does the end of the input (Ctrl-D)
The first letter of a command will do: u, r, b, m, n, q; ? is help."""
_OPENING_HELP = """the opening: type the points of the stones that are asked for, such as h8 or 8,8, then
  white       play white, who moves next
  black       play black
  add         under swap2: place two more stones, white and black; the other takes a colour
  save FILE, board, moves, new, quit as in the game"""
COMMANDS = ("undo", "redo", "hint", "resign", "save", "board", "moves", "new", "help", "quit")
_SHORT = {"u": "undo", "r": "redo", "b": "board", "m": "moves", "n": "new", "q": "quit", "?": "help"}
_SHORT |= {"exit": "quit", "s": "save"}
_SPINNER = "line"  # of ASCII, for every terminal
_NUMBERS = re.compile(r"\(?\s*(\d{1,4})\s*[,;\s]\s*(\d{1,4})\s*\)?", re.ASCII)


class EndOfInput(Exception):  # noqa: N818 - an event, not an error
    """No more to read."""


class Quit(Exception):  # noqa: N818 - an event, not an error
    """The person leaves."""


@dataclasses.dataclass(frozen=True)
class Adviser:
    """Who gives hints: makes a thinker at the first, or raises AgentError or ValueError."""

    name: str
    make: Callable[[], Thinker]
    limit: Limit = Limit(DEFAULT_SIMULATIONS)


def read_line(prompt: str) -> str:
    """A line that a person or a script typed. What a script sends is shown, so that its output can be read.

    Raises:
        EndOfInput: there is none.
    """
    if is_interactive():
        try:
            return input(prompt)
        except EOFError:
            print()
            raise EndOfInput from None
    line = sys.stdin.readline()
    if not line:
        raise EndOfInput
    print(prompt + line.rstrip("\n"), flush=True)
    return line.rstrip("\n")


def parse_numbers(game: Gomoku, text: str) -> int | None:
    """The action of `row,column`, from 1 at the bottom left; None where that is no such pair.

    Raises:
        IllegalMoveError: the point is not on the board.
    """
    match = _NUMBERS.fullmatch(text)
    if match is None:
        return None
    row, column = int(match[1]), int(match[2])
    if not (1 <= row <= game.height and 1 <= column <= game.width):
        raise IllegalMoveError(
            f"row {row}, column {column} is not on the board: rows are 1 to {game.height}, columns 1 to "
            f"{game.width}"
        )
    return (row - 1) * game.width + column - 1


class Session:
    """A game between two sides, a person or a machine each.

    Args:
        record: the game, with the moves it begins with.
        players: by colour, +1 and -1; None is a person.
        console: where it is shown.
        adviser: who gives hints.
        delay: seconds between the moves of two machines.
        file: of the game that was loaded, for its names and comment.
        opening: swap or swap2, before the game; black's side is the first player.
    """

    def __init__(
        self,
        record: GameRecord,
        players: dict[int, HostPlayer | None],
        console: rich.console.Console,
        adviser: Adviser,
        delay: float = 0.5,
        file: GameFile | None = None,
        opening: SwapOpening | None = None,
    ):
        self.record, self.players, self.console = record, players, console
        self.adviser, self.delay, self.file = adviser, delay, file
        self.result = ""  # where somebody resigned or forfeited
        self._thinker: Thinker | None = None
        self._color = colorful(console)
        self.exchanged = False  # whether swap gave black's side the white stones
        self._start = list(record.moves)
        self._opening = opening  # while it is under way
        self._swap = opening and opening.swap
        self._num_opening = 0  # stones that swap has placed, which nobody takes back

    # The course of a game.

    @property
    def watched(self) -> bool:
        """Two machines play."""
        return None not in self.players.values()

    @property
    def over(self) -> bool:
        """Nobody is to move any more."""
        return bool(self.result) or self.record.over

    def run(self) -> None:
        """Plays until the game is over, or the person leaves; a person may go on after the end."""
        for player in self.players.values():
            if player is not None:
                player.new_game()
        if self._opening is None:
            self.show_board()
        while True:
            while not self.over:
                if self._opening is not None:
                    self._open(self._opening)
                    continue
                player = self.players[self.record.to_play]
                if player is None:
                    self._ask(self._prompt())
                else:
                    self._machine_moves(player)
            self.say(self.ending())
            self.say(f"moves: {self.record}", wrap=False)
            if self.watched:
                return
            self.say("undo, new, save FILE or quit?")
            while self.over:
                self._ask("over> ")

    def ending(self) -> str:
        """Who won and how."""
        record = self.record
        if self.result:
            winner = {"B": 1, "W": -1}[self.result[0]]
            how = {"R": "resigns", "F": "forfeits"}[self.result[2]]
            return f"{self._name(-winner)} {how}: {self._name(winner)} wins after {len(record)} moves"
        if record.winner:
            line = line_text(record.game, record.winning_points, most=26)
            return f"{self._name(record.winner)} wins after {len(record)} moves: {line}"
        return f"a draw: the board is full after {len(record)} moves"

    def say(self, text: str, wrap: bool = True) -> None:
        """Prints; on a terminal long lines are broken between words, unless they are there to be copied."""
        self.console.print(text, soft_wrap=not (wrap and self.console.is_terminal))

    def show_board(self) -> None:
        """Prints the board and who is to move."""
        record = self.record
        self.console.print()
        self.console.print(board_text(record, self._color), soft_wrap=True)
        if not self.over:
            last = f", {format_action(record.game, record.moves[-1])} was the last" if record.moves else ""
            stone = "" if self._color else f", {STONES[record.to_play]}"
            self.say(f"move {len(record) + 1}: {self._name(record.to_play, stone)} to move{last}")

    def _name(self, color: int, more: str = "") -> str:
        who = "you" if self._is_only_person(color) else self._side(color)
        return f"{COLORS[color]} ({who}{more})"

    def _is_only_person(self, color: int) -> bool:
        return self.players[color] is None and self.players[-color] is not None

    def _side(self, color: int) -> str:
        player = self.players[color]
        return "human" if player is None else player.name

    def _prompt(self) -> str:
        return f"{COLORS[self.record.to_play]}> "

    # Swap and swap2, before the game.

    def _open(self, opening: SwapOpening) -> None:
        """Carries the opening to its end, and gives the players their colours."""
        seats = {FIRST: self.players[1], SECOND: self.players[-1]}
        if not opening.stones:
            self.say(f"{opening.swap}: {self._seat(FIRST)} places black, white and black; white moves next.")
        while not opening.over:
            turn, player = opening.turn, seats[opening.turn]
            try:
                if player is None:
                    self._ask_opening(opening)
                    if self._opening is not opening:
                        return  # begun again
                else:
                    self._machine_opens(opening, player)
            except (ForfeitError, IllegalMoveError) as error:
                self.say(f"{self._seat(turn)}: {error}")
                self.result = "W+F" if turn == FIRST else "B+F"
                break
        self._opening = None
        self.record = GameRecord(self.record.game, opening.stones)
        self._num_opening = len(opening.stones)
        if opening.first_color < 0:
            self._exchange()
        if not self.result:
            self.say(f"black: {self._side(1)}; white: {self._side(-1)}.")
            self.show_board()

    def _exchange(self) -> None:
        """The sides take each other's colours."""
        self.players = {-color: player for color, player in self.players.items()}
        self.exchanged = not self.exchanged

    def _seat(self, turn: str) -> str:
        color = 1 if turn == FIRST else -1
        return f"the {turn} player ({'you' if self._is_only_person(color) else self._side(color)})"

    def _machine_opens(self, opening: SwapOpening, player: HostPlayer) -> None:
        name, game = self._seat(opening.turn), opening.game
        assert player.opener is not None
        with self.console.status(f"{name} thinks", spinner=_SPINNER):
            if opening.missing:
                placed = player.opener.propose()
                for stone in placed:
                    opening.place(stone)
                told = f"{name} places {format_moves(game, placed)}"
            else:
                choice = player.opener.choose(tuple(opening.stones), "add" in opening.choices)
                opening.apply(choice)
                told = f"{name} takes {choice.kind}"
                if choice.kind == "add":
                    told = (
                        f"{name} adds {format_moves(game, choice.stones)} and leaves the colours to the other"
                    )
                if choice.value is not None:
                    told += f": it values the position at {choice.value:+.2f} for white"
        self.say(told)
        if not opening.over:
            self._show_opening(opening)

    def _show_opening(self, opening: SwapOpening) -> None:
        self.console.print()
        record = GameRecord(opening.game, opening.stones)
        self.console.print(board_text(record, self._color), soft_wrap=True)

    def _ask_opening(self, opening: SwapOpening) -> None:
        """One line of a person in the opening: a stone, a choice or a command."""
        turn = opening.turn
        if opening.missing:
            color = COLORS[1 if len(opening.stones) % 2 == 0 else -1]
            line = read_line(f"{turn} player, {color} stone> ").strip()
        else:
            line = read_line(f"{turn} player, {', '.join(opening.choices)}> ").strip()
        word = _SHORT.get(line.lower(), line.lower())
        first = line.partition(" ")[0].lower()
        if word == "quit":
            raise Quit
        if _SHORT.get(first, first) == "save":
            self._save(line.partition(" ")[2].strip())
        elif word == "new":
            self._new()
        elif word == "board":
            self._show_opening(opening)
        elif word == "moves":
            self.say(format_moves(opening.game, opening.stones) or "no stones yet", wrap=False)
        elif word == "help":
            self.say(_OPENING_HELP)
        elif word in COMMANDS:
            self.say(f"{word} is for the game after the opening")
        elif opening.missing and line:
            try:
                action = parse_numbers(opening.game, line)
                opening.place(line if action is None else action)
            except IllegalMoveError as error:
                self.say(re.sub(r"^move [^:]*: ", "", str(error)))
                return
            self._show_opening(opening)
        elif line:
            try:
                opening.choose({"w": "white", "a": "add"}.get(word, word))
            except ValueError as error:
                self.say(str(error))

    def _machine_moves(self, player: HostPlayer) -> None:
        record, name = self.record, self._name(self.record.to_play)
        try:
            action, analysis = self._think(player)
            record.play(action)
        except (ForfeitError, IllegalMoveError) as error:
            self.say(f"{name}: {error}")
            self.result = {1: "W+F", -1: "B+F"}[record.to_play]
            return
        thought = f": {thought_text(record.game, analysis)}" if analysis else ""
        self.say(f"{name} plays {format_action(record.game, action)}{thought}")
        self.show_board()
        if self.watched and not self.over and self.delay:
            time.sleep(self.delay)

    def _think(self, player: HostPlayer) -> tuple[int, Analysis | None]:
        name = self._name(self.record.to_play)
        if not isinstance(player, AgentPlayer) or player.limit.simulations == 0:
            with self.console.status(f"{name} thinks", spinner=_SPINNER):
                return player.choose(self.record), None
        analysis = self._search(player.thinker, player.limit, name)
        return analysis.action, analysis

    def _search(self, thinker: Thinker, limit: Limit, name: str) -> Analysis:
        """A search that is watched; what it needs is compiled before its clock runs."""
        with self.console.status(f"{name} gets ready", spinner=_SPINNER) as status:
            thinker.warm_up(limit.simulations or MAX_SIMULATIONS)
            analysis = None
            for analysis in thinker.analyses(self.record.state, limit.simulations, limit.seconds):
                status.update(f"{name} thinks, {analysis.num_simulations} simulations")
        assert analysis is not None  # the first comes before any simulation
        return analysis

    # What a person types.

    def _ask(self, prompt: str) -> None:
        """One line: a move or a command. What is wrong is said, and nothing changes."""
        line = read_line(prompt).strip()
        if not line:
            return
        word, _, rest = line.partition(" ")
        command = _SHORT.get(word.lower(), word.lower())
        if command in COMMANDS:
            if rest.strip() and command != "save":
                self.say(f"{command} takes no more words; help lists the commands")
            else:
                getattr(self, f"_{command}")(*([rest.strip()] if command == "save" else []))
            return
        if self.over:
            self.say("the game is over: undo, new, save FILE or quit?")
            return
        try:
            action = parse_numbers(self.record.game, line)
            self.record.play(line if action is None else action)
        except IllegalMoveError as error:
            reason = re.sub(r"^move [^:]*: ", "", str(error))
            if "is not a point" in reason:
                reason = f"{line!r} is neither a move, such as h8 or 8,8, nor a command; help lists them"
            self.say(reason)
            return
        if self.over or self.players[self.record.to_play] is None:
            self.show_board()  # else with the machine's answer

    def _undo(self) -> None:
        count = 1
        most = len(self.record) - self._num_opening
        while count <= most and self.players[self._mover(count)] is not None:
            count += 1
        if self.result.endswith("R"):
            self.result = ""  # the resignation is what is taken back
            self.say("you play on")
            self.show_board()
        elif count > most:
            self.say("nothing of yours to take back")
        else:
            self.result = ""
            self.record.undo(count)
            self.say(f"{count} move{'s' * (count > 1)} taken back")
            self.show_board()

    def _mover(self, count: int) -> int:
        """Who moves after so many moves are taken back."""
        return self.record.to_play * (-1) ** count

    def _redo(self) -> None:
        if not self.record.can_redo:
            self.say("nothing to play again")
            return
        count = 1
        while count < self.record.can_redo and self.players[self._mover(count)] is not None:
            count += 1
        count = self.record.redo(count)
        self.say(f"{count} move{'s' * (count > 1)} played again")
        self.show_board()

    def _hint(self) -> None:
        if self.over:
            self.say("the game is over: there is no move to find")
            return
        try:
            if self._thinker is None:
                self._thinker = self.adviser.make()
        except (AgentError, ValueError) as error:
            self.say(f"no hints here: {error}")
            return
        found = self._search(self._thinker, self.adviser.limit, self.adviser.name)
        self.say(hint_text(self.record.game, found, self.adviser.name))

    def _resign(self) -> None:
        if self.over:
            self.say("the game is over already")
            return
        self.result = {1: "W+R", -1: "B+R"}[self.record.to_play]

    def _save(self, name: str) -> None:
        if not name:
            self.say(f"save needs a file's name, with the ending .{', .'.join(FORMATS)}")
            return
        try:
            self.save(pathlib.Path(name).expanduser())
        except FileExistsError:
            if not self._yes(f"{name} is there: replace it? "):
                self.say("not saved")
                return
            try:
                self.save(pathlib.Path(name).expanduser(), replace=True)
            except (OSError, ValueError) as error:
                self.say(f"not saved: {error}")
                return
        except (OSError, ValueError, RuntimeError) as error:
            self.say(f"not saved: {error}")
            return
        self.say(f"saved: {name}")

    def _yes(self, question: str) -> bool:
        return read_line(question + "yes or no: ").strip().lower() in ("y", "yes")

    def _board(self) -> None:
        self.show_board()

    def _moves(self) -> None:
        self.say(str(self.record) or "no moves yet", wrap=False)

    def _new(self) -> None:
        self.record = GameRecord(self.record.game, self._start if not self._start_is_over() else [])
        self.result = ""
        if self._swap:
            self._opening, self._num_opening = SwapOpening(self.record.game, self._swap), 0
            if self.exchanged:
                self._exchange()
        for player in self.players.values():
            if player is not None:
                player.new_game()
        self.say("a new game")
        if self._opening is None:
            self.show_board()

    def _start_is_over(self) -> bool:
        return GameRecord(self.record.game, self._start).over

    def _help(self) -> None:
        self.say(HELP)

    def _quit(self) -> None:
        raise Quit

    # Files.

    def save(self, path: pathlib.Path, replace: bool = False) -> None:
        """Writes the game in the format that the file's ending means.

        Raises:
            ValueError: another ending, or a game that the format cannot hold.
            FileExistsError: a file is there, and `replace` is False.
            OSError: it cannot be written.
        """
        record = self.record
        if self._opening is not None:
            record = GameRecord(record.game, self._opening.stones)
        names = [self._side(color) for color in (1, -1)]
        kept = (
            self.file and list(self.file.moves[: self.file.num_setup]) == record.moves[: self.file.num_setup]
        )
        result = self.result or outcome(record.state)
        text = write_game(
            file_format(path),
            record.game,
            record.moves,
            *names,
            result=result,
            num_setup=self.file.num_setup if self.file and kept else 0,
            comment=self.file.comment if self.file else self._opening_comment(),
        )
        save_file(path, text, replace)

    def _opening_comment(self) -> str:
        if self._opening is not None:
            return f"An opening by {self._swap}, of which nobody has taken a colour yet."
        if not self._num_opening:
            return ""
        first = self._side(-1 if self.exchanged else 1)
        return f"The first {self._num_opening} stones are an opening by {self._swap}; {first} placed first."

    def how_to_go_on(self, sides: dict[int, str], options: str = "") -> str:
        """The command that goes on with a game that is left; the sides and options as on a command line."""
        game, moves = self.record.game, format_moves(self.record.game, self.record.moves)
        rule = "" if game.rule == "freestyle" else f" --rule {game.rule}"
        rule += "" if game.opening == "free" else f" --opening-rule {game.opening}"
        return (
            f"to go on: gomoku-jax play --board {game.height}x{game.width}x{game.k}{rule} "
            f"--black {sides[1]} --white {sides[-1]}{options} --moves {moves}"
        )
