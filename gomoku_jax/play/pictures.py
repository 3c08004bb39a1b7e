"""Pictures of a game as pixels, where `game.svg` will not do: frames for libraries, and animations."""

import io
from collections.abc import Sequence
from typing import Literal

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gomoku_jax.game import Gomoku, State, replay_moves

_WOOD, _LINES, _BLACK, _WHITE, _MARK = "#e3b76b", "#5b4015", "#1c1c1c", "#fbfbf6", "#d02f2f"
_SMOOTHING = 3  # drawn so many times larger, then scaled down: Pillow draws without antialiasing


def board_image(
    state: State,
    moves: Sequence[int] | None = None,
    highlight: np.ndarray | None = None,
    cell: int = 32,
) -> np.ndarray:
    """One game as pixels, row 1 at the bottom, the last move marked; looks like `game.svg`.

    Args:
        state: one game.
        moves: actions in order, to number the stones.
        highlight: bool [H, W], stones to ring, such as `game.winning_line(state)`.
        cell: pixels between two lines, at least 8.

    Returns:
        uint8 [(H + 1) * cell, (W + 1) * cell, 3].

    Raises:
        ValueError: a batch, or smaller cells.
    """
    board = np.asarray(state.board)
    if board.ndim != 2:
        raise ValueError(f"board of shape {board.shape}: draws one game, of shape [H, W]")
    if cell < 8:
        raise ValueError(f"cell = {cell}: at least 8 pixels")
    height, width = board.shape
    unit = cell * _SMOOTHING
    size = (width + 1) * unit, (height + 1) * unit
    image = Image.new("RGB", size, _WOOD)
    draw = ImageDraw.Draw(image)

    def x(col: int) -> int:
        return (col + 1) * unit

    def y(row: int) -> int:
        return (height - row) * unit

    def text(at: tuple[float, float], label: str, share: float, fill: str) -> None:
        draw.text(at, label, fill=fill, font=ImageFont.load_default(share * unit), anchor="mm")

    for row in range(height):
        draw.line([(x(0), y(row)), (x(width - 1), y(row))], fill=_LINES, width=_SMOOTHING)
        text((0.27 * unit, y(row)), str(row + 1), 0.34, _LINES)
    for col in range(width):
        draw.line([(x(col), y(0)), (x(col), y(height - 1))], fill=_LINES, width=_SMOOTHING)
        text((x(col), size[1] - 0.27 * unit), chr(ord("a") + col), 0.34, _LINES)
    numbers = {int(action): i + 1 for i, action in enumerate(() if moves is None else moves)}
    last = int(np.asarray(state.last_action))
    for row, col in zip(*np.nonzero(board), strict=True):
        fill, ink = (_BLACK, _WHITE) if board[row, col] > 0 else (_WHITE, _BLACK)
        ringed = highlight is not None and bool(highlight[row, col])
        outline, stroke = (_MARK, 0.1) if ringed else (_BLACK, 0.03)
        draw.circle((x(col), y(row)), 0.42 * unit, fill, outline, max(1, round(stroke * unit)))
        action = int(row) * width + int(col)
        if action in numbers:
            text((x(col), y(row)), str(numbers[action]), 0.38, ink)
        elif action == last:
            draw.circle((x(col), y(row)), 0.13 * unit, _MARK)
    scaled = image.resize((size[0] // _SMOOTHING, size[1] // _SMOOTHING), Image.Resampling.LANCZOS)
    return np.array(scaled)


def animation(
    game: Gomoku,
    moves: Sequence[int],
    kind: Literal["gif", "png"] = "gif",
    seconds: float = 0.6,
    last_seconds: float = 3.0,
    cell: int = 32,
) -> bytes:
    """A game move by move, the winning line ringed at the end, played in a loop.

    Args:
        game: the rules.
        moves: actions in order.
        kind: a GIF, or an animated PNG, which also shows where GIF does not, as in GitHub's notebooks.
        seconds: a move.
        last_seconds: the last position.
        cell: pixels between two lines.

    Raises:
        IllegalMoveError: names the first illegal move and the reason.
        ValueError: another kind of picture.
    """
    if kind not in ("gif", "png"):
        raise ValueError(f"kind = {kind!r}: choose gif or png")
    frames = []
    for count in range(len(moves) + 1):
        state = replay_moves(game, moves[:count])
        highlight = np.asarray(game.winning_line(state))
        frame = Image.fromarray(board_image(state, moves[:count], highlight, cell))
        frames.append(frame.quantize(32, dither=Image.Dither.NONE))  # a board has few colours
    milliseconds = [round(1000 * seconds)] * len(moves) + [round(1000 * last_seconds)]
    file = io.BytesIO()
    frames[0].save(file, kind.upper(), save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
    return file.getvalue()
