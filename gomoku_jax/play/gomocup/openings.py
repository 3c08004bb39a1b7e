"""What the engine places first under SWAP2BOARD, in plain Python: it may answer before JAX is there."""

from gomoku_jax.play.gomocup.board import Board

# Points of a 15x15 board (column, row) from its lower left corner: far from the centre and apart, so that the
# third stone is worth little. Shifted towards the middle on larger boards.
_OPENINGS = (
    ((2, 2), (4, 5), (6, 2)),
    ((1, 4), (3, 4), (2, 8)),
    ((4, 1), (5, 4), (8, 1)),
    ((0, 6), (2, 6), (3, 3)),
    ((3, 3), (4, 4), (3, 7)),
    ((1, 1), (3, 3), (4, 1)),
)


def openings_for(board: Board) -> list[tuple[int, ...]]:
    """The openings of three stones that fit on a board; its own three points where none does."""
    shift = max(0, min(board.width, board.height) - 15) // 2
    fitting = [
        tuple(board.cell((row + shift) * board.width + col + shift) for col, row in opening)
        for opening in _OPENINGS
        if all(col + shift < board.width and row + shift < board.height for col, row in opening)
    ]
    return fitting or [(board.points[0], board.points[-1], board.points[1])]
