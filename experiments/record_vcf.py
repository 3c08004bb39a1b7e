"""Wins by continuous fours in plain Python: the solver of record, which shares nothing with the package.

It looks at every line of k cells at every node, tries every four, and every reply that stops one. Renju's
forbidden points are those of the `renju` package (extra `test`).
"""

from collections.abc import Iterator

DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
_EDGE = 3


class RecordVcf:
    """Searches positions of one board under one rule.

    Args:
        height: rows.
        width: columns.
        k: stones in a row.
        rule: as of `gomoku_jax.Gomoku`.
        max_nodes: fours tried in a position before `OutOfNodesError`.
    """

    def __init__(self, height: int, width: int, k: int, rule: str, max_nodes: int = 100_000):
        self.height, self.width, self.k, self.rule, self.max_nodes = height, width, k, rule, max_nodes
        self.nodes = 0
        self.windows: list[tuple[list[int], int, int]] = []  # k cells, and the two that prolong them
        for row in range(height):
            for col in range(width):
                for row_step, col_step in DIRECTIONS:
                    cells = [(row + i * row_step, col + i * col_step) for i in range(-1, k + 1)]
                    if all(self._inside(*cell) for cell in cells[1:-1]):
                        first, *middle, last = [self._index(*cell) for cell in cells]
                        self.windows.append((middle, first, last))

    def _inside(self, row: int, col: int) -> bool:
        return 0 <= row < self.height and 0 <= col < self.width

    def _index(self, row: int, col: int) -> int:
        return row * self.width + col if self._inside(row, col) else self.height * self.width

    def _filled_wins(self, board: list[int], before: int, after: int, color: int) -> bool:
        """Whether a window full of a colour's stones wins."""
        ends = board[before], board[after]
        if self.rule == "freestyle" or (self.rule == "renju" and color == -1):
            return True
        if color in ends:
            return self.rule == "caro_overline"
        return not self.rule.startswith("caro") or ends != (-color, -color)

    def fives(self, board: list[int], color: int) -> set[int]:
        """Where a stone of a colour wins at once."""
        found = set()
        for cells, before, after in self.windows:
            stones = [board[cell] for cell in cells]
            lacks_one = stones.count(color) == self.k - 1 and 0 in stones
            if lacks_one and self._filled_wins(board, before, after, color):
                found.add(cells[stones.index(0)])
        return found

    def fours(self, board: list[int], color: int) -> set[int]:
        """Where a stone of a colour may make a four: points of windows that lack two stones."""
        found = set()
        for cells, before, after in self.windows:
            stones = [board[cell] for cell in cells]
            lacks_two = stones.count(color) == self.k - 2 and stones.count(0) == 2
            if lacks_two and self._filled_wins(board, before, after, color):
                found.update(cell for cell in cells if board[cell] == 0)
        return found

    def is_legal(self, board: list[int], cell: int, color: int) -> bool:
        """Whether an empty cell may be played."""
        if self.rule != "renju" or color != 1:
            return True
        from renju.check_forbid import get_foul_type

        side = max(self.height, self.width)  # the package knows squares: white stones are as good as an edge
        grid = [[2] * side for _ in range(side)]
        for i in range(self.height * self.width):
            grid[i // self.width][i % self.width] = 2 if board[i] == -1 else board[i]
        return get_foul_type(grid, *divmod(cell, self.width)) == 0

    def replies(self, board: list[int], color: int) -> Iterator[int]:
        """The other side's legal moves after which `color` has no five: all of them are tried under caro."""
        fives = self.fives(board, color)
        near = [i for i in range(self.height * self.width) if board[i] == 0]
        for cell in near if self.rule.startswith("caro") else fives:
            board[cell] = -color
            stopped = not self.fives(board, color)
            board[cell] = 0
            if stopped and self.is_legal(board, cell, -color):
                yield cell

    def solve(self, board: list[int], color: int, fours: int) -> bool:
        """Whether the side to move wins by up to so many fours and a five.

        Args:
            board: a cell's stone by `row * width + col`; changed in between, and left as it was.
            color: of the attacker.
            fours: at most.

        Raises:
            OutOfNodesError: not known after `max_nodes` fours.
        """
        self.nodes = 0
        self._failed: set[tuple[int, ...]] = set()
        return self._wins([*board, _EDGE], color, fours)

    def _wins(self, board: list[int], color: int, fours: int) -> bool:
        if self.fives(board, color):
            return True
        if fours == 0 or tuple(board) in self._failed:
            return False
        threats = self.fives(board, -color)
        for cell in sorted(self.fours(board, color)):
            if not self.is_legal(board, cell, color):
                continue
            self.nodes += 1
            if self.nodes > self.max_nodes:
                raise OutOfNodesError
            board[cell] = color
            won = not (threats and self.fives(board, -color)) and bool(self.fives(board, color))
            for reply in list(self.replies(board, color)) if won else ():
                board[reply] = -color
                won = self._wins(board, color, fours - 1)
                board[reply] = 0
                if not won:
                    break
            board[cell] = 0
            if won:
                return True
        self._failed.add(tuple(board))
        return False


class OutOfNodesError(Exception):
    """A position that took too long."""
