"""Moves without a search: wins, blocks and open fours exactly, and else what lines of five suggest.

Played until the agent is ready, and consulted before every search: what is exact here needs none.
"""

import dataclasses
from collections.abc import Iterable

from gomoku_jax.play.gomocup.board import EMPTY, STONES_IN_A_ROW, Board

_REACH = STONES_IN_A_ROW - 1
# A window of five points with so many stones of one colour and none of the other is worth so much.
_OWN_WINDOW = (1, 12, 90, 800, 0, 0)  # fours are found exactly before any window is counted
_OTHER_WINDOW = (1, 9, 70, 500, 0, 0)
_NEAR = 2  # points further from every stone are no candidates


@dataclasses.dataclass(frozen=True)
class Advice:
    """What exact looking ahead allows.

    Attributes:
        cells: the moves to choose from; empty where all are.
        kind: "win", "block", "open four": any of the cells decides or is forced. "defend": the other side
            threatens an open four, and only these prevent it, or make a four first. "" where nothing presses.
        defences: of "defend", those that prevent it.
    """

    cells: tuple[int, ...] = ()
    kind: str = ""
    defences: tuple[int, ...] = ()


def advise(board: Board) -> Advice:
    """Looks for wins in one and two moves of both sides."""
    own = board.to_play
    empty = board.empty
    wins = [cell for cell in empty if board.wins_at(cell, own)]
    if wins:
        return Advice(tuple(wins), "win")

    def legal(cells: Iterable[int]) -> tuple[int, ...]:
        return tuple(cell for cell in cells if not board.is_forbidden(cell, own))

    losses = [cell for cell in empty if board.wins_at(cell, -own)]
    if losses:  # where none of them may be played, the game is lost, and any move will do
        blocks = legal(_stops(board, losses, -own) or losses)
        return Advice(blocks, "block") if blocks else Advice()
    double_fours = legal(cell for cell in empty if _decides(board, cell, own))
    if double_fours:
        return Advice(double_fours, "open four")
    threats = {}
    for cell in empty:
        fives = _decides(board, cell, -own)
        if fives and not board.is_forbidden(cell, -own):
            threats[cell] = fives
    if not threats:
        return Advice()
    defences = legal(_defences(board, threats))
    fours = legal(cell for cell in empty if cell not in defences and _fours(board, cell, own))
    return Advice((*defences, *fours), "defend", defences)


def _fours(board: Board, cell: int, color: int) -> list[int]:
    """The cells where `color` would have five after playing `cell`, on lines through it."""
    cells = board.cells
    promising = []
    for step in board.directions:
        count = 0
        for side in (step, -step):
            at = cell
            for _ in range(_REACH):
                at += side
                stone = cells[at]
                if stone == color:
                    count += 1
                elif stone != EMPTY:
                    break
        if count >= STONES_IN_A_ROW - 2:
            promising.append(step)
    if not promising:
        return []
    cells[cell] = color
    found = []
    for step in promising:
        for side in (step, -step):
            at = cell
            for _ in range(_REACH):
                at += side
                if cells[at] == EMPTY:
                    if at not in found and board.wins_at(at, color):
                        found.append(at)
                elif cells[at] != color:
                    break
    cells[cell] = EMPTY
    return found


def _decides(board: Board, cell: int, color: int) -> list[int]:
    """The cells where `color` would have five after playing `cell`; none where one reply stops them all."""
    fives = _fours(board, cell, color)
    if len(fives) < 2:
        return []
    board.cells[cell] = color
    stopped = bool(_stops(board, fives, color))
    board.cells[cell] = EMPTY
    return [] if stopped else fives


def _stops(board: Board, fives: list[int], color: int) -> list[int]:
    """The cells where a stone of the other colour leaves none of the fives, cells where `color` wins."""
    if not board.rule.startswith("caro"):  # a five is stopped by filling it
        return fives if len(fives) == 1 else []
    cells = board.cells
    # Or at an end, where the other is closed.
    near = {fives[0]}
    for step in board.directions:
        near.update(cell for cell in board.line_ends(fives[0], color, step) if cells[cell] == EMPTY)
    stops = []
    for cell in sorted(near):
        cells[cell] = -color
        if not any(cells[five] == EMPTY and board.wins_at(five, color) for five in fives):
            stops.append(cell)
        cells[cell] = EMPTY
    return stops


def _defences(board: Board, threats: dict[int, list[int]]) -> tuple[int, ...]:
    """The moves after which none of the threats decides the game any more."""
    own = board.to_play
    cells = board.cells
    first = min(threats, key=lambda cell: len(threats[cell]))
    near = {first, *threats[first]}
    for step in board.directions:
        for side in (step, -step):
            at = first
            for _ in range(_REACH + 1):  # one more: an own stone there can do no harm under "exact" only
                at += side
                if cells[at] not in (EMPTY, own, -own):
                    break
                if cells[at] == EMPTY:
                    near.add(at)
    defences = []
    for cell in sorted(near):
        cells[cell] = own
        if all(cells[threat] != EMPTY or not _decides(board, threat, -own) for threat in threats):
            defences.append(cell)
        cells[cell] = EMPTY
    return tuple(defences)


def best_cell(board: Board, cells: tuple[int, ...] = ()) -> int:
    """The cell that lines of five speak for; of all near stones where none are given; the centre first.

    Raises:
        ValueError: no point is left to play.
    """
    candidates = cells or _near_stones(board)
    if not candidates:
        raise ValueError("no point is left to play")
    middle_row, middle_col = (board.height - 1) / 2, (board.width - 1) / 2

    def value(cell: int) -> tuple[int, float]:
        row, col = divmod(board.action(cell), board.width)
        return _score(board, cell), -max(abs(row - middle_row), abs(col - middle_col))

    return max(candidates, key=value)


def _near_stones(board: Board) -> list[int]:
    empty = board.legal
    if not board.moves:
        return empty
    taken = [divmod(board.action(cell), board.width) for cell, _ in board.moves]
    near = {
        (row + i, col + j)
        for row, col in taken
        for i in range(-_NEAR, _NEAR + 1)
        for j in range(-_NEAR, _NEAR + 1)
    }
    return [cell for cell in empty if divmod(board.action(cell), board.width) in near] or empty


def _score(board: Board, cell: int) -> int:
    """The worth of all windows of five through an empty cell, for both colours."""
    cells, own = board.cells, board.to_play
    total = 0
    for step in board.directions:
        before = after = 0  # how far the board goes on
        while before < _REACH and abs(cells[cell - (before + 1) * step]) < 2:
            before += 1
        while after < _REACH and abs(cells[cell + (after + 1) * step]) < 2:
            after += 1
        line = cells[cell - before * step : cell + after * step + 1 : step]
        for start in range(len(line) - STONES_IN_A_ROW + 1):
            window = line[start : start + STONES_IN_A_ROW]
            mine, others = window.count(own), window.count(-own)
            if not others:
                total += _OWN_WINDOW[mine]
            elif not mine:
                total += _OTHER_WINDOW[others]
    return total


def fallback_cell(board: Board, advice: Advice | None = None) -> int:
    """A legal and sensible move, in a few milliseconds.

    Raises:
        ValueError: the board is full.
    """
    advice = advise(board) if advice is None else advice
    return best_cell(board, advice.defences or advice.cells)
