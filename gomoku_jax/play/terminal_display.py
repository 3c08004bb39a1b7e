"""What the terminal shows: the board, in colours or plain, and an agent's thoughts in words."""

import sys
from collections.abc import Sequence

import numpy as np
import rich.console
import rich.text

from gomoku_jax.game import Gomoku, format_action
from gomoku_jax.play.record import GameRecord
from gomoku_jax.play.thinking import Analysis

COLORS = {1: "black", -1: "white"}
STONES = {0: ".", 1: "X", -1: "O"}
_DISCS = {0: "·", 1: "●", -1: "●"}
_WOOD = "#d9a860"
_INK = {0: f"#8a6a34 on {_WOOD}", 1: f"bold #101010 on {_WOOD}", -1: f"bold #ffffff on {_WOOD}"}
_LAST = f"bold #b01010 on {_WOOD}"
_WON = {1: "bold #101010 on #7fd08a", -1: "bold #ffffff on #2f8f45"}
_LABEL = "dim"
_LINE_MOVES = 8  # of a line, as much as fits beside the numbers


def make_console(color: bool = True) -> rich.console.Console:
    """A console for standard output: colours on a terminal, unless NO_COLOR or `color` say otherwise."""
    return rich.console.Console(no_color=not color or None, highlight=False, markup=False)


def colorful(console: rich.console.Console) -> bool:
    """Whether the console shows colours, and the discs that need them."""
    if console.color_system is None or console.no_color:
        return False
    try:
        "".join(_DISCS.values()).encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def board_text(record: GameRecord, color: bool) -> rich.text.Text:
    """The board with its coordinates on all sides.

    In colours black and white discs, the last move between red brackets, the stones of a won line on green.
    Plain, `X` is black and `O` white, the last move is `(X)`, and bars stand beside the stones that won.
    """
    height, width = record.game.shape
    board = np.asarray(record.state.board)
    won = set(record.winning_points)
    last = record.moves[-1] if record.moves else None
    letters = "    " + " ".join(chr(ord("a") + column) for column in range(width))
    text = rich.text.Text()
    text.append(letters + "\n", _LABEL if color else "")
    for row in reversed(range(height)):
        text.append(f"{row + 1:2d} ", _LABEL if color else "")
        for column in range(width):
            action, stone = row * width + column, int(board[row, column])
            left = action - 1 if column else None
            text.append(*_between(left, action, last, won, color))
            if color:
                text.append(_DISCS[stone], _WON[stone] if action in won else _INK[stone])
            else:
                text.append(STONES[stone])
        text.append(*_between(row * width + width - 1, None, last, won, color))
        text.append(f" {row + 1}\n", _LABEL if color else "")
    text.append(letters, _LABEL if color else "")
    return text


def _between(
    left: int | None, right: int | None, last: int | None, won: set[int], color: bool
) -> tuple[str, str]:
    """What stands between two neighbours, and its style: brackets around the last move, bars in a line."""
    if color:
        if last is not None and last in (left, right):
            return (")" if last == left else "("), _LAST
        return " ", f"on {_WOOD}"
    if left in won or right in won:
        return "|", ""
    if last is not None and last in (left, right):
        return (")" if last == left else "("), ""
    return " ", ""


def line_text(game: Gomoku, line: Sequence[int], most: int = _LINE_MOVES) -> str:
    """Moves in order, as `h8 i9 j10`."""
    return " ".join(format_action(game, action) for action in line[:most])


def view_text(value: float, to_play: int) -> str:
    """A value and whose view it is: `+0.35 for black`."""
    return f"{value:+.2f} for {COLORS[to_play]}"


def thought_text(game: Gomoku, analysis: Analysis) -> str:
    """One line on a search: how long, what it thinks of the position, and the line it expects."""
    found = f"{analysis.num_simulations} simulations in {analysis.seconds:.1f} s"
    best = next((one.line for one in analysis.candidates if one.action == analysis.action), ())
    line = f", line {line_text(game, best)}" if best else ""
    return f"{found}, value {view_text(analysis.value, analysis.to_play)}{line}"


def hint_text(game: Gomoku, analysis: Analysis, name: str, count: int = 5) -> str:
    """The best moves of a search as a table."""
    color = COLORS[analysis.to_play]
    rows = [("move", "visits", "prior", "Q", "line")]
    for one in analysis.candidates[:count]:
        move = format_action(game, one.action)
        rows.append((move, str(one.visits), f"{one.prior:.0%}", f"{one.q:+.2f}", line_text(game, one.line)))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = [
        "  " + "  ".join([row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in (1, 2, 3)), row[4]])
        for row in rows
    ]
    return "\n".join(
        [
            f"{name} after {analysis.num_simulations} simulations, best first:",
            *lines,
            f"  prior: the network's first guess. Q from {color}'s view: +1 {color} wins, -1 {color} loses.",
        ]
    )


def is_interactive() -> bool:
    """Whether a person types."""
    try:
        return sys.stdin.isatty()
    except (AttributeError, ValueError):
        return False
