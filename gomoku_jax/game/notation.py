"""Names of boards, points and moves: `15x15x5`, `h8`, `h8i9j10`.

Columns are letters from `a`, no letter is skipped; rows are numbered from the bottom, from 1. Action 0 is
`a1`; on 15x15 the centre is `h8`, action 112.
"""

import re
from collections.abc import Iterable, Sequence

from gomoku_jax.config import Rule
from gomoku_jax.game.rules import Gomoku

_POINT = re.compile(r"([a-zA-Z])([1-9][0-9]?)")


def parse_board(board: str, rule: Rule = "freestyle") -> Gomoku:
    """A game from `ROWSxCOLUMNSxK`, such as `15x15x5`.

    Raises:
        ValueError: another form, or no such game.
    """
    match = re.fullmatch(r"(\d{1,3})x(\d{1,3})x(\d{1,3})", board.strip().lower())
    if match is None:
        raise ValueError(f"board {board!r}: write ROWSxCOLUMNSxK, such as 15x15x5")
    return Gomoku(int(match[1]), int(match[2]), int(match[3]), rule)


def _row_and_col(game: Gomoku, action: int) -> tuple[int, int]:
    if not 0 <= action < game.num_actions:
        raise ValueError(f"action {action} is not on the {game.height}x{game.width} board")
    return divmod(int(action), game.width)


def format_action(game: Gomoku, action: int) -> str:
    """The name of an action.

    >>> format_action(Gomoku(15, 15, 5), 112)
    'h8'
    """
    row, col = _row_and_col(game, action)
    return f"{chr(ord('a') + col)}{row + 1}"


def parse_action(game: Gomoku, point: str) -> int:
    """The action of a point's name, upper or lower case. Raises ValueError for anything else.

    >>> parse_action(Gomoku(15, 15, 5), "H8")
    112
    """
    match = _POINT.fullmatch(point.strip())
    if match is None:
        raise ValueError(f"{point!r} is not a point: write a letter and a number, such as h8")
    col, row = ord(match[1].lower()) - ord("a"), int(match[2]) - 1
    if row >= game.height or col >= game.width:
        raise ValueError(f"{point!r} is not on the board of {game.height} rows and {game.width} columns")
    return row * game.width + col


def format_moves(game: Gomoku, actions: Iterable[int]) -> str:
    """A move string.

    >>> format_moves(Gomoku(15, 15, 5), [112, 128])
    'h8i9'
    """
    return "".join(format_action(game, action) for action in actions)


def split_moves(moves: str) -> list[str]:
    """The points' names of a move string, on any board; spaces and commas between them are ignored.

    >>> split_moves("h8i9, j10")
    ['h8', 'i9', 'j10']
    """
    text = re.sub(r"[\s,]+", "", moves)
    names, position = [], 0
    while position < len(text):
        match = _POINT.match(text, position)
        if match is None:
            raise ValueError(f"move string {moves!r}: no point at {text[position : position + 4]!r}")
        names.append(match[0])
        position = match.end()
    return names


def parse_moves(game: Gomoku, moves: str) -> list[int]:
    """The actions of a move string. Raises ValueError for anything that is no point of the board.

    >>> parse_moves(Gomoku(15, 15, 5), "h8 i9")
    [112, 128]
    """
    return [parse_action(game, name) for name in split_moves(moves)]


def to_sgf(
    game: Gomoku,
    actions: Sequence[int],
    black: str = "",
    white: str = "",
    result: str = "",
    num_setup: int = 0,
    comment: str = "",
) -> str:
    """One game as an SGF file, GM[4] (Gomoku and Renju).

    Args:
        game: gives the size, `SZ[15]` or `SZ[columns:rows]`.
        actions: the moves in order, black first.
        black: name of the first player.
        white: name of the second player.
        result: SGF's `B+`, `W+` or `0`.
        num_setup: how many of the first moves were an opening, not the players' choice; said in a comment.
        comment: on the whole game.

    Raises:
        ValueError: an action that is not on the board.

    Source: https://www.red-bean.com/sgf/, whose points are letters from the upper left corner.
    """

    def text(value: str) -> str:
        return value.replace("\\", "\\\\").replace("]", "\\]")

    size = f"{game.width}" if game.height == game.width else f"{game.width}:{game.height}"
    root = f";FF[4]GM[4]CA[UTF-8]AP[gomoku_jax]SZ[{size}]RU[{game.rule}, {game.k} in a row]"
    if num_setup:
        opening = f"The first {num_setup} stones are a random opening."
        comment = f"{opening}\n{comment}" if comment else opening
    for tag, value in (("PB", black), ("PW", white), ("RE", result), ("C", comment)):
        if value:
            root += f"{tag}[{text(value)}]"
    nodes = []
    for i, action in enumerate(actions):
        row, col = _row_and_col(game, action)
        point = chr(ord("a") + col) + chr(ord("a") + game.height - 1 - row)
        nodes.append(f";{'BW'[i % 2]}[{point}]")
    return f"({root}\n{''.join(nodes)})\n"
