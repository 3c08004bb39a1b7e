"""What a game file holds, how a damaged one is told, and the check of its moves by the rules."""

import codecs
import dataclasses
import re
from collections.abc import Sequence

from gomoku_jax.game import ForbiddenMoveError, Gomoku, IllegalMoveError, State, format_action, play_move

MAX_CHARACTERS = 4_000_000  # of a file: far more than any game needs
DEFAULT_SIDE = 15  # of a board whose size nothing tells
DEFAULT_K = 5
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class GameFileError(ValueError):
    """A file that is damaged, or holds a game that cannot be played here.

    Attributes:
        line: where, from 1.
        column: where in the line, from 1.
    """

    def __init__(self, message: str, line: int = 1, column: int = 1):
        super().__init__(f"line {line}, column {column}: {message}")
        self.line, self.column = line, column


@dataclasses.dataclass(frozen=True)
class GameFile:
    """One game from a file.

    Attributes:
        game: the board and the rule.
        moves: actions in order, black first; legal under the rule.
        black: name of the first player; empty where the file has none.
        white: name of the second player.
        result: SGF's words, such as `B+`, `W+R` or `0`; where the file has none, how the moves end, or
            nothing while the game goes on.
        num_setup: how many of the first moves were put on the board, not chosen by the players.
        comment: on the whole game.
        warnings: what was ignored or guessed, in sentences.
        format: "sgf", "psq" or "moves".
    """

    game: Gomoku
    moves: tuple[int, ...]
    black: str = ""
    white: str = ""
    result: str = ""
    num_setup: int = 0
    comment: str = ""
    warnings: tuple[str, ...] = ()
    format: str = "moves"


@dataclasses.dataclass(frozen=True)
class Placed:
    """A move and where it stands in its file; line and column from 1."""

    action: int
    line: int
    column: int


def check_moves(game: Gomoku, placed: Sequence[Placed]) -> State:
    """The position after the moves. Raises GameFileError at the first that the rules do not allow."""
    state = game.init()
    for number, move in enumerate(placed, 1):
        name = format_action(game, move.action) if 0 <= move.action < game.num_actions else move.action
        try:
            state = play_move(game, state, name, number)
        except IllegalMoveError as error:
            ended = f" (on {game})" if bool(state.terminated) else ""
            raise GameFileError(f"{error}{ended}", move.line, move.column) from None
    return state


def without_last_foul(
    game: Gomoku, placed: Sequence[Placed], warnings: list[str]
) -> tuple[list[Placed], str]:
    """The moves without a last one that renju forbids, by which Black lost, and the result that follows.

    The result is "W+F", or nothing where the last move may be played. `warnings` tells what was left out.
    """
    moves = list(placed)
    if game.rule != "renju" or not moves:
        return moves, ""
    state = check_moves(game, moves[:-1])
    try:
        play_move(game, state, moves[-1].action, len(moves))
    except ForbiddenMoveError as error:
        warnings.append(f"{error}: Black lost by it, and it is left out")
        return moves[:-1], "W+F"
    except IllegalMoveError:
        pass  # told by `check_moves`, with its place in the file
    return moves, ""


def outcome(state: State) -> str:
    """SGF's word for how a game ended: `B+`, `W+`, `0` for a draw, nothing while it goes on."""
    return {1: "B+", -1: "W+"}.get(int(state.winner), "0") if bool(state.terminated) else ""


def make_game(height: int, width: int, k: int | None, rule: str | None, like: Gomoku | None) -> Gomoku:
    """The game of a file that may leave k and the rule open.

    Args:
        height: rows.
        width: columns.
        k: stones in a row, None where the file does not tell.
        rule: None where the file does not tell.
        like: on a board of the same size, gives what the file does not tell.

    Raises:
        ValueError: no such game.
    """
    same = like is not None and like.shape == (height, width)
    if k is None:
        k = like.k if same and like else min(DEFAULT_K, max(height, width))
    if rule is None:
        rule = like.rule if same and like else "freestyle"
    return Gomoku(height, width, k, rule)  # type: ignore[arg-type]


def decode(data: str | bytes, encoding: str | None = None) -> tuple[str, list[str]]:
    """The text of a file, lines ended by a line feed, and warnings.

    Args:
        data: what was read.
        encoding: what the file itself says of its encoding; otherwise UTF-8 or else Latin-1.

    Raises:
        GameFileError: the file is too large.
    """
    warnings = []
    if len(data) > MAX_CHARACTERS:
        raise GameFileError(f"{len(data)} characters: at most {MAX_CHARACTERS} can be read")
    if isinstance(data, bytes):
        text = None
        marked = next((name for mark, name in _MARKS if data.startswith(mark)), None)
        if marked is not None:
            encoding = marked
        if encoding is not None:
            text = _decode_as(data, encoding)
            if text is None:
                warnings.append(f"unknown encoding {encoding!r}: read as UTF-8")
            elif "\ufffd" in text:
                line = text.count("\n", 0, text.index("\ufffd")) + 1
                warnings.append(f"line {line}: not all bytes are {encoding}; some are replaced")
        if text is None:
            try:
                text = data.decode("utf-8")
            except UnicodeDecodeError:
                text = data.decode("latin-1")
    else:
        text = data
    text = text.removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n"), warnings


def _decode_as(data: bytes, encoding: str) -> str | None:
    """None where there is no such text encoding, or none in which ASCII characters are themselves."""
    try:
        if not encoding.startswith("utf-16") and b"(;[]1a)".decode(encoding) != "(;[]1a)":
            return None
        return data.decode(encoding, "replace")
    except (LookupError, ValueError, AttributeError):
        return None


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of a place in a text."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def one_line(value: str) -> str:
    """A value without line breaks and control characters, as names are."""
    return re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]", " ", value)
