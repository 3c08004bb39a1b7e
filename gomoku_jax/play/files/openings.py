"""Opening files, such as Gomocup's `openings.txt`: one opening a line, `dx,dy, dx,dy, ...`.

The numbers are offsets from the centre, to the right and down; on a board with an even side the centre is
the point to the right of the middle and below it. Black has the first stone, colours take turns.

Source: `playOpening` in https://github.com/plastovicka/Piskvork.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence

from gomoku_jax.game import Gomoku
from gomoku_jax.play.files.gamefile import GameFileError, Placed, check_moves, decode
from gomoku_jax.symmetry import canonical_position

_NUMBER = re.compile(r"[-+]?\d{1,3}", re.ASCII)
_BETWEEN = re.compile(r"\s*,\s*|\s+")


@dataclasses.dataclass(frozen=True)
class OpeningFile:
    """Openings of one board.

    Attributes:
        game: the board and the rule.
        openings: the actions of each, black first.
        lines: the line of the file that each stands in, from 1.
        warnings: openings that are in the file before, as they are or turned or mirrored.
    """

    game: Gomoku
    openings: tuple[tuple[int, ...], ...]
    lines: tuple[int, ...]
    warnings: tuple[str, ...] = ()


def read_openings(text: str | bytes, game: Gomoku) -> OpeningFile:
    """All openings of a file; empty lines and lines that begin with # are skipped.

    Raises:
        GameFileError: not such a file, or stones that the board or the rules have no place for.
    """
    text, warnings = decode(text)
    openings, lines, seen = [], [], {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        placed = _read_line(game, line, number)
        state = check_moves(game, placed)
        moves = tuple(move.action for move in placed)
        if bool(state.terminated):
            raise GameFileError("the opening ends the game", number, placed[-1].column)
        first = seen.setdefault(canonical_position(*game.shape, moves), number)
        if first != number:
            warnings.append(f"line {number}: the position of line {first}, perhaps turned or mirrored")
        openings.append(moves)
        lines.append(number)
    return OpeningFile(game, tuple(openings), tuple(lines), tuple(warnings))


def _read_line(game: Gomoku, line: str, number: int) -> list[Placed]:
    numbers: list[tuple[int, int]] = []  # value, column
    end = len(line.rstrip())
    offset = len(line) - len(line.lstrip())
    while offset < end:
        match = _NUMBER.match(line, offset)
        if match is None:
            raise GameFileError(
                f"{line[offset : offset + 12].strip()!r} is not an offset from the centre, such as -3",
                number,
                offset + 1,
            )
        numbers.append((int(match[0]), offset + 1))
        offset = match.end()
        between = _BETWEEN.match(line, offset)
        if between is None and offset < end:
            raise GameFileError(f"a comma is missing before {line[offset]!r}", number, offset + 1)
        offset = between.end() if between else offset
    if len(numbers) % 2:
        raise GameFileError("the last stone has one offset: dx,dy are two", number, numbers[-1][1])
    placed = []
    for (dx, column), (dy, _) in zip(numbers[::2], numbers[1::2], strict=True):
        x, y = game.width // 2 + dx, game.height // 2 + dy
        if not (0 <= x < game.width and 0 <= y < game.height):
            raise GameFileError(
                f"{dx},{dy} is not on the board of {game.width} columns and {game.height} rows",
                number,
                column,
            )
        placed.append(Placed((game.height - 1 - y) * game.width + x, number, column))
    return placed


def write_openings(game: Gomoku, openings: Iterable[Sequence[int]]) -> str:
    """Openings as a file.

    Args:
        game: the board, whose centre the offsets are from.
        openings: the actions of each, black first.

    Raises:
        ValueError: an action that is not on the board, or an empty opening.
    """
    lines = []
    for opening in openings:
        pairs = []
        for action in opening:
            if not 0 <= action < game.num_actions:
                raise ValueError(f"action {action} is not on the {game.height}x{game.width} board")
            row, column = divmod(int(action), game.width)
            pairs.append(f"{column - game.width // 2},{game.height - 1 - row - game.height // 2}")
        if not pairs:
            raise ValueError("an opening without stones has no line")
        lines.append(", ".join(pairs))
    return "".join(line + "\n" for line in lines)
