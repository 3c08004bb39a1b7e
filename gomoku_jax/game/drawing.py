"""Pictures of a state: ASCII for terminals, SVG for notebooks and pages."""

from collections.abc import Sequence

import numpy as np

from gomoku_jax.game.state import State

_CELL = 32  # pixels between lines


def _last_point(state: State, width: int) -> tuple[int, int] | None:
    last = int(np.asarray(state.last_action))
    return None if last < 0 else divmod(last, width)


def ascii_board(state: State) -> str:
    """One game as text: `X` black, `O` white, the last move in parentheses, row 1 at the bottom.

    >>> from gomoku_jax.game.moves import replay_moves
    >>> from gomoku_jax.game.rules import Gomoku
    >>> print(ascii_board(replay_moves(Gomoku(3, 4, 3), "a1b2")))
     3  .  .  .  .
     2  . (O) .  .
     1  X  .  .  .
        a  b  c  d
    """
    board = np.asarray(state.board)
    if board.ndim != 2:
        raise ValueError(f"board of shape {board.shape}: draws one game, of shape [H, W]")
    height, width = board.shape
    last = _last_point(state, width)
    rows = []
    for row in reversed(range(height)):
        line = f"{row + 1:2d} "
        for col in range(width):
            stone = ".XO"[int(board[row, col])]
            line += f"({stone})" if last == (row, col) else f" {stone} "
        rows.append(line.rstrip())
    rows.append("   " + "".join(f" {chr(ord('a') + col)} " for col in range(width)).rstrip())
    return "\n".join(rows)


def svg(state: State, moves: Sequence[int] | None = None, highlight: np.ndarray | None = None) -> str:
    """One game, or up to 16 of a batch, as an SVG picture, row 1 at the bottom.

    Args:
        state: one game, or a batch [B, ...].
        moves: actions in order, to number the stones of one game.
        highlight: bool [H, W], stones to ring, such as `game.winning_line(state)`.
    """
    boards = np.asarray(state.board)
    if boards.ndim == 2:
        height, width = boards.shape
        body = _svg_board(boards, _last_point(state, width), moves, highlight)
        return _svg_page(_page_size(height, width), body)
    height, width = boards.shape[-2:]
    boards = boards.reshape(-1, height, width)
    lasts = np.asarray(state.last_action).reshape(-1)
    shown = min(len(boards), 16)
    columns = max(min(shown, 4), 1)
    page_width, page_height = _page_size(height, width)
    parts = []
    for i in range(shown):
        last = None if lasts[i] < 0 else divmod(int(lasts[i]), width)
        offset = f"translate({i % columns * page_width} {i // columns * page_height})"
        parts.append(f'<g transform="{offset}">{_svg_board(boards[i], last, None, None)}</g>')
    size = columns * page_width, -(-shown // columns) * page_height
    return _svg_page(size, "".join(parts))


def _page_size(height: int, width: int) -> tuple[int, int]:
    return (width + 1) * _CELL, (height + 1) * _CELL


def _svg_page(size: tuple[int, int], body: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
        f'viewBox="0 0 {size[0]} {size[1]}" font-family="sans-serif" text-anchor="middle">{body}</svg>'
    )


def _svg_board(
    board: np.ndarray,
    last: tuple[int, int] | None,
    moves: Sequence[int] | None,
    highlight: np.ndarray | None,
) -> str:
    height, width = board.shape
    page_width, page_height = _page_size(height, width)

    def x(col: int) -> int:
        return (col + 1) * _CELL

    def y(row: int) -> int:
        return (height - row) * _CELL

    parts = [f'<rect width="{page_width}" height="{page_height}" fill="#e3b76b"/>']
    lines = [f"M{x(0)} {y(row)}H{x(width - 1)}" for row in range(height)]
    lines += [f"M{x(col)} {y(0)}V{y(height - 1)}" for col in range(width)]
    parts.append(f'<path d="{"".join(lines)}" stroke="#5b4015" fill="none"/>')
    for col in range(width):
        parts.append(_text(x(col), page_height - 4, chr(ord("a") + col), 11, "#5b4015"))
    for row in range(height):
        parts.append(_text(9, y(row) + 4, str(row + 1), 11, "#5b4015"))
    numbers = {int(action): i + 1 for i, action in enumerate(() if moves is None else moves)}
    for row, col in zip(*np.nonzero(board), strict=True):
        black = board[row, col] > 0
        fill, ink = ("#1c1c1c", "#ffffff") if black else ("#fbfbf6", "#1c1c1c")
        ring = highlight is not None and bool(highlight[row, col])
        stroke = 'stroke="#d02f2f" stroke-width="3"' if ring else 'stroke="#1c1c1c"'
        parts.append(f'<circle cx="{x(col)}" cy="{y(row)}" r="13.5" fill="{fill}" {stroke}/>')
        number = numbers.get(int(row) * width + int(col))
        if number is not None:
            parts.append(_text(x(col), y(row) + 4, str(number), 12, ink))
        elif last == (row, col):
            parts.append(f'<circle cx="{x(col)}" cy="{y(row)}" r="4" fill="#d02f2f"/>')
    return "".join(parts)


def _text(x: float, y: float, text: str, size: int, fill: str) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}">{text}</text>'
