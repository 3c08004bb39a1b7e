"""Piskvork's `.psq` files, as its manager and Gomocup's archives write them:

    Piskvorky 15x15, 11:11, 0     columns x rows, the players' levels (0 is a person), who began
    8,8,0                         a move: column and row from 1, from the upper left corner; milliseconds
    9,7,1250
    pbrain-one.exe                names, in tournaments only: the first player's, the second's
    pbrain-two.exe
    -1                            the end: 0 or -1, or an error's number
    1,Freestyle15_1               in archives: who won (1, 2, or 0), and the division

The last number of the first line is 0 where the first player began and 1 where the second did: it is not
the rule, as is often believed. The rule stands in the division's name, or nowhere. Stones in a row are five;
for other games this module writes them behind the division.

Source: `openPsq` and `savePsq` in https://github.com/plastovicka/Piskvork.
"""

import re
from collections.abc import Sequence

from gomoku_jax.game import Gomoku, format_action, replay_moves
from gomoku_jax.play.files.gamefile import (
    GameFile,
    GameFileError,
    Placed,
    check_moves,
    decode,
    make_game,
    one_line,
    outcome,
    without_last_foul,
)

_HEADER = re.compile(
    r"\s*Piskvorky\s+(\d{1,3})\s*x\s*(\d{1,3})\s*,\s*-?\d{1,9}\s*:\s*-?\d{1,9}\s*,\s*(-?\d{1,9})\s*",
    re.ASCII | re.IGNORECASE,
)
_MOVE = re.compile(r"\s*(\d{1,4})\s*,\s*(\d{1,4})\s*(?:,\s*-?\d{1,15}\s*)?", re.ASCII)
_LIKE_A_MOVE = re.compile(r"\s*[-+]?\d+\s*,|[^,]*,\s*\d+\s*,\s*\d+\s*$")
_THREE_FIELDS = re.compile(r"[^,]*,[^,]*,[^,]*")
_END = re.compile(r"\s*-?\d{1,9}\s*", re.ASCII)
_DIVISION = re.compile(r"\s*([0-3])\s*,\s*([A-Za-z].*)")
_WINNERS = {"B+": 1, "W+": 2, "W+F": 2}
_UNNAMED = ("homo-1", "homo-2")  # what Piskvork calls people


def read_psq(text: str | bytes, game: Gomoku | None = None) -> GameFile:
    """The game of a `.psq` file.

    Args:
        text: the file; bytes are UTF-8, or else Latin-1.
        game: on a board of the same size, gives the rule and the stones in a row where the file does not
            tell.

    Raises:
        GameFileError: damaged, or moves that the rules do not allow.
    """
    text, warnings = decode(text)
    lines = text.split("\n")
    header = _HEADER.fullmatch(lines[0])
    if header is None:
        raise GameFileError("the first line is not such as 'Piskvorky 15x15, 11:11, 0'", 1, 1)
    if header[3] not in ("0", "1"):
        warnings.append(f"line 1: who began is {header[3]}: read as 0, the first player")
    number, points = 2, []
    while number <= len(lines) and (not lines[number - 1].strip() or _LIKE_A_MOVE.match(lines[number - 1])):
        line = lines[number - 1]
        move = _MOVE.fullmatch(line)
        if move is not None:
            points.append((int(move[1]), int(move[2]), number, len(line) - len(line.lstrip()) + 1))
        elif _DIVISION.fullmatch(line) and not _THREE_FIELDS.fullmatch(line):
            break
        elif line.strip():
            raise GameFileError(f"{line.strip()[:30]!r} is not a move, such as 8,8,0", number, 1)
        number += 1
    names, division = _read_end(lines, number, warnings)
    rule, k = _read_rule(division, warnings)
    like = game
    try:
        game = make_game(int(header[2]), int(header[1]), k, rule, like)
    except ValueError as error:
        raise GameFileError(str(error), 1, header.start(1) + 1) from None
    if rule is None and (like is None or like.shape != game.shape):
        warnings.append(f"the file does not tell the rule: read as {game.rule}, {game.k} in a row")
    placed = [Placed(_action(game, *point), point[2], point[3]) for point in points]
    placed, foul = without_last_foul(game, placed, warnings)
    state = check_moves(game, placed)
    if header[3] == "1":
        names.reverse()
    result = outcome(state) or foul
    won = division[0] if division else "0"
    if result in _WINNERS and won in "12" and int(won) != _WINNERS[result]:
        warnings.append(f"the file says that player {won} won, the moves end in {result!r}")
    elif not result and won in "12":
        result = "B+" if won == "1" else "W+"
    return GameFile(
        game=game,
        moves=tuple(move.action for move in placed),
        black=names[0],
        white=names[1],
        result=result,
        warnings=tuple(warnings),
        format="psq",
    )


# Words of a division's name and what they mean, as Gomocup's; the longer ones first.
_DIVISIONS = (
    ("freestyle", "freestyle"),
    ("fastgame", "freestyle"),
    ("standard", "exact"),
    ("renju", "renju"),
    ("caro overline", "caro_overline"),
    ("caro", "caro"),
)
_DIVISION_NAMES = {
    "freestyle": "Freestyle",
    "exact": "Standard",
    "renju": "Renju",
    "caro": "Caro",
    "caro_overline": "Caro overline",
}


def _read_end(lines: list[str], number: int, warnings: list[str]) -> tuple[list[str], tuple[str, str] | None]:
    """The names, and the winner and the division, of the lines from `number` on."""
    rest = [(i, line.strip()) for i, line in enumerate(lines[number - 1 :], number) if line.strip()]
    ends = [i for i, (_, line) in enumerate(rest) if _END.fullmatch(line)]
    # Behind two names, or at once: a name may be a number.
    end = 2 if 2 in ends else next((i for i in ends if i < 2), None)
    if end is None:
        end = next((i for i, (_, line) in enumerate(rest) if _DIVISION.fullmatch(line)), len(rest))
        warnings.append("the end (a line with 0 or -1) is missing: the file may be cut off")
        after = rest[end:]
    else:
        after = rest[end + 1 :]
    if end > 2:
        raise GameFileError(f"{rest[2][1][:30]!r}: two names at most stand behind the moves", rest[2][0], 1)
    names = ["" if name == _UNNAMED[i] else name for i, (_, name) in enumerate(rest[:end])]
    names += [""] * (2 - len(names))
    division = _DIVISION.fullmatch(after[0][1]) if after else None
    if len(after) > (division is not None):
        line = after[division is not None]
        warnings.append(f"line {line[0]}: what stands behind the end is ignored")
    return names, (division[1], division[2].strip()) if division else None


def _read_rule(division: tuple[str, str] | None, warnings: list[str]) -> tuple[str | None, int | None]:
    """The rule and the stones in a row that a division's name tells."""
    if division is None:
        return None, None
    name = division[1].lower()
    count = re.search(r"(?:^|\D)(\d{1,2}) in a row", name, re.ASCII)
    k = int(count[1]) if count else None
    for word, rule in _DIVISIONS:
        if word in name:
            return rule, k
    warnings.append(f"the rule of the division {division[1][:40]!r} is not known here: read as freestyle")
    return "freestyle", k


def _action(game: Gomoku, x: int, y: int, line: int, column: int) -> int:
    if not (1 <= x <= game.width and 1 <= y <= game.height):
        raise GameFileError(
            f"{x},{y} is not on the board of {game.width} columns and {game.height} rows", line, column
        )
    return (game.height - y) * game.width + x - 1


def write_psq(
    game: Gomoku,
    moves: Sequence[int],
    black: str = "",
    white: str = "",
    result: str = "",
    num_setup: int = 0,
    comment: str = "",
) -> str:
    """One game as a `.psq` file. The format has no place for `num_setup` and `comment`.

    Args:
        game: the board and the rule.
        moves: actions in order, black first.
        black: name of the first player; white spaces at its ends are lost, line breaks become spaces.
        white: name of the second player.
        result: SGF's words; read from the moves where it is empty.
        num_setup: not written.
        comment: not written.

    Raises:
        ValueError: an action that is not on the board, a name that looks like a move.
    """
    lines = [f"Piskvorky {game.width}x{game.height}, 0:0, 0"]
    for action in moves:
        format_action(game, action)  # raises where there is none
        row, column = divmod(int(action), game.width)
        lines.append(f"{column + 1},{game.height - row},0")
    names = [one_line(name).strip() for name in (black, white)]
    for name in names:
        if _LIKE_A_MOVE.match(name):
            raise ValueError(f"the name {name!r} looks like a move: no .psq file can hold it")
    if any(names):
        lines += [name or unnamed for name, unnamed in zip(names, _UNNAMED, strict=True)]
    division = _DIVISION_NAMES[game.rule]
    if game.k != 5:
        division += f" {game.k} in a row"
    result = result or outcome(replay_moves(game, moves))
    winner = {"B": 1, "W": 2}.get(result[:1].upper(), 0)
    return "\n".join([*lines, "-1", f"{winner},{division}"]) + "\n"
