"""Renju's forbidden points in plain Python, for the engine before its libraries are imported.

The definitions are those of `gomoku_jax.game.renju`, and a test holds the two against each other.
"""

from collections.abc import Sequence

_BLACK, _EMPTY = 1, 0
_FIVE, _REACH = 5, 5


def is_foul(cells: list[int], cell: int, directions: Sequence[int]) -> bool:
    """Whether a black stone on an empty cell makes an overline, a double-four or a double-three, and no five.

    Args:
        cells: a board with a border of cells that are neither empty nor black, as of `Board.cells`; changed
            in between, and left as it was.
        cell: an empty cell.
        directions: the steps along the four lines.
    """
    cells[cell] = _BLACK
    try:
        lengths = [_length(cells, cell, step) for step in directions]
        if _FIVE in lengths:
            return False
        if max(lengths) > _FIVE or sum(_fours(cells, cell, step) for step in directions) >= 2:
            return True
        return sum(_is_three(cells, cell, step, directions) for step in directions) >= 2
    finally:
        cells[cell] = _EMPTY


def _length(cells: list[int], cell: int, step: int) -> int:
    """Black stones in one unbroken run through a cell."""
    length = 1
    for side in (step, -step):
        at = cell + side
        while cells[at] == _BLACK:
            length += 1
            at += side
    return length


def _near(cells: list[int], cell: int, step: int) -> list[int]:
    """The empty cells of a line within reach of a cell, with only black stones and gaps between."""
    near = []
    for side in (step, -step):
        at = cell
        for _ in range(_REACH - 1):
            at += side
            if cells[at] == _EMPTY:
                near.append(at)
            elif cells[at] != _BLACK:
                break
    return near


def _fives(cells: list[int], cell: int, step: int) -> list[int]:
    """The cells of a line where one more stone makes exactly five with the stone on `cell`."""
    fives = []
    for at in _near(cells, cell, step):
        cells[at] = _BLACK
        if _length(cells, at, step) == _FIVE and _joined(cells, cell, at, step):
            fives.append(at)
        cells[at] = _EMPTY
    return fives


def _joined(cells: list[int], one: int, other: int, step: int) -> bool:
    """Whether two stones of a line stand in one unbroken run."""
    step = step if other > one else -step
    while one != other:
        one += step
        if cells[one] != _BLACK:
            return False
    return True


def _fours(cells: list[int], cell: int, step: int) -> int:
    """The fours that the stone on `cell` makes on a line: 0, 1, or 2."""
    return min(len(_fives(cells, cell, step)), 2) - _is_straight(cells, cell, step)


def _is_straight(cells: list[int], cell: int, step: int) -> bool:
    """Whether the stone on `cell` stands in four unbroken stones that become five at either end."""
    return _length(cells, cell, step) == _FIVE - 1 and len(_fives(cells, cell, step)) == 2


def _is_three(cells: list[int], cell: int, step: int, directions: Sequence[int]) -> bool:
    """Whether a legal stone that makes no five turns the line into a straight four."""
    for at in _near(cells, cell, step):
        cells[at] = _BLACK
        straight = _is_straight(cells, at, step) and _joined(cells, cell, at, step)
        five = any(_length(cells, at, other) == _FIVE for other in directions)
        cells[at] = _EMPTY
        if straight and not five and not is_foul(cells, at, directions):
            return True
    return False
