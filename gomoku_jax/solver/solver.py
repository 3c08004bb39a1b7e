"""The exact solver: alpha-beta over bitboards, with a transposition table and symmetries.

What keeps the tree small: a win in one is taken and a win of the other side is blocked without looking
further; a move with two threats wins; against such a move only the points that touch it are tried; a side
without a line left to it cannot win. Values are 1 (the side to move wins), 0 and -1.
"""

from typing import Any

import numpy as np

from gomoku_jax.game import Gomoku
from gomoku_jax.symmetry import image_table

try:
    from gomoku_jax.solver import kernels
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "the solver needs Numba: pip install 'gomoku_jax[solver]'", name=error.name
    ) from error

MAX_POINTS = 36
UNFINISHED = 2
ILLEGAL = -2


class SolverError(Exception):
    """A position that cannot be solved; the message says why."""


class Solver:
    """Solves positions of one game. Keeps what it learned of one position for the next.

    Args:
        game: of at most 36 points, under "freestyle" or "exact".
        table_bits: the transposition table has 2 ** table_bits entries of 18 bytes.

    Raises:
        ValueError: a board of more points, or another rule.

    >>> Solver(Gomoku(3, 3, 3)).value(np.zeros((3, 3), np.int8), 1)
    0
    """

    def __init__(self, game: Gomoku, table_bits: int = 20):
        if game.num_actions > MAX_POINTS:
            raise ValueError(f"the board {game} has {game.num_actions} points: at most {MAX_POINTS}")
        if game.rule not in ("freestyle", "exact"):
            raise ValueError(f"rule = {game.rule!r}: the solver knows freestyle and exact")
        if game.opening != "free":
            raise ValueError(f"opening = {game.opening!r}: the solver knows free games only")
        if not 10 <= table_bits <= 30:
            raise ValueError(f"table_bits = {table_bits}: from 10 to 30")
        self.game = game
        height, width = game.shape
        stride = width + 1
        rows, cols = np.divmod(np.arange(game.num_actions), width)
        self._bits = np.uint64(1) << (rows * stride + cols).astype(np.uint64)
        windows, through = [], [[] for _ in range(game.num_actions)]
        for row_step, col_step in ((0, 1), (1, 0), (1, 1), (1, -1)):
            for row in range(height):
                for col in range(width):
                    line = [(row + i * row_step, col + i * col_step) for i in range(game.k)]
                    if not all(0 <= r < height and 0 <= c < width for r, c in line):
                        continue
                    points = [r * width + c for r, c in line]
                    for point in points:
                        through[point].append(len(windows))
                    windows.append(np.bitwise_or.reduce(self._bits[points]))
        most = max(len(x) for x in through) + 1
        point_windows = np.full((game.num_actions, most), -1, np.int64)
        for point, found in enumerate(through):
            point_windows[point, : len(found)] = found
        strides = np.array([1, stride, stride + 1, stride - 1], np.uint64)
        self._board = (
            self._bits,
            np.array(windows, np.uint64),
            point_windows,
            strides,
            game.k,
            game.rule == "exact",
        )
        self._symmetries = self._symmetry_bytes()
        size = 1 << table_bits
        self._table = (
            np.bitwise_or.reduce(self._bits),
            np.zeros(size, np.uint64),
            np.zeros(size, np.uint64),
            np.tile(np.array([1, -1], np.int8), (size, 1)),
        )
        self._stack = (
            np.zeros((MAX_POINTS + 2, 4), np.uint64),
            np.zeros((MAX_POINTS + 2, 10), np.int64),
            np.zeros((MAX_POINTS + 2, MAX_POINTS + 1), np.uint64),
            np.zeros((MAX_POINTS + 2, MAX_POINTS + 1), np.int64),
        )
        self._scratch = np.zeros(64, np.uint64)
        self._nodes = np.zeros(2, np.int64)

    def _symmetry_bytes(self) -> np.ndarray:
        """uint64 [S, 8, 256]: for every symmetry the image of each byte of a board's word."""
        tables = image_table(*self.game.shape)
        images = np.zeros((len(tables), 64), np.uint64)
        where = np.log2(self._bits.astype(np.float64)).round().astype(int)
        for i, table in enumerate(tables):
            images[i, where] = self._bits[table]
        result = np.zeros((len(tables), 8, 256), np.uint64)
        for byte in range(8):
            for bit in range(8):
                has = (np.arange(256) >> bit) & 1 == 1
                result[:, byte, has] |= images[:, byte * 8 + bit, None]
        return result

    def _words(self, board: Any, to_play: int) -> tuple[np.uint64, np.uint64]:
        board = np.asarray(board)
        if board.shape != self.game.shape:
            raise SolverError(f"a board of shape {board.shape}, for {self.game}")
        if to_play not in (1, -1):
            raise SolverError(f"to_play = {to_play!r}: 1 for the first player, or -1")
        flat = board.reshape(-1)
        own, other = (
            np.bitwise_or.reduce(self._bits[flat == color], initial=0) for color in (to_play, -to_play)
        )
        return np.uint64(own), np.uint64(other)

    def value(self, board: Any, to_play: int, max_nodes: int | None = None) -> int:
        """The value of a position for the side to move: 1, 0 or -1.

        Args:
            board: int [H, W], 1 the first player's stones, -1 the second's; nobody has won yet.
            to_play: 1 or -1.
            max_nodes: positions to look at before giving up; None is no limit.

        Raises:
            SolverError: the game is over, or `max_nodes` did not suffice.
        """
        own, other = self._checked(board, to_play)
        self._nodes[:] = 0, np.iinfo(np.int64).max if max_nodes is None else max_nodes
        value = kernels.value_of(own, other, *self._memory)
        if value == UNFINISHED:
            raise SolverError(f"not solved within {max_nodes} positions")
        return int(value)

    def move_values(self, board: Any, to_play: int, max_nodes: int | None = None) -> np.ndarray:
        """The value of every legal move for the side that plays it.

        Args:
            board: int [H, W], as in `value`.
            to_play: 1 or -1.
            max_nodes: positions to look at for each move; None is no limit.

        Returns:
            int8 [A]: 1, 0 or -1; -2 at illegal moves.

        Raises:
            SolverError: as in `value`.
        """
        own, other = self._checked(board, to_play)
        self._nodes[:] = 0, np.iinfo(np.int64).max if max_nodes is None else max_nodes
        values = np.zeros(self.game.num_actions, np.int8)
        kernels.move_values(
            own,
            other,
            self._board,
            self._symmetries,
            self._table,
            self._stack,
            self._scratch,
            self._nodes,
            values,
        )
        if (values == UNFINISHED).any():
            raise SolverError(f"not solved within {max_nodes} positions a move")
        return values

    @property
    def _memory(self) -> tuple[Any, ...]:
        """What the compiled functions read and write."""
        return self._board, self._symmetries, self._table, self._stack, self._scratch, self._nodes

    @property
    def nodes(self) -> int:
        """Positions looked at by the last call (by its last move, of `move_values`)."""
        return int(self._nodes[0])

    def _checked(self, board: Any, to_play: int) -> tuple[np.uint64, np.uint64]:
        own, other = self._words(board, to_play)
        won = any(kernels.has_line(stones, *self._board[3:], self._scratch) for stones in (own, other))
        if won or own | other == self._table[0]:
            raise SolverError("the game is over in this position")
        return own, other
