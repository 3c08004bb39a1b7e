"""Five in a row without NumPy: the engine keeps the position before its libraries are imported."""

from gomoku_jax.play.gomocup.fouls import is_foul

BLACK, WHITE, EMPTY = 1, -1, 0
_EDGE = 2
STONES_IN_A_ROW = 5  # in every Gomocup game


class Board:
    """A position, under any of the rules.

    A cell is an index into a list with a border around the board, so that no walk along a line has to look at
    coordinates. `cell` and `action` convert; an action is `row * width + column`, row 0 at the bottom.

    Args:
        width: columns.
        height: rows.
        rule: "freestyle", "exact", "caro", "caro_overline" or "renju", as of `gomoku_jax.Gomoku`.
    """

    def __init__(self, width: int, height: int, rule: str = "freestyle"):
        self.width, self.height, self.rule = width, height, rule
        # One border column serves as the right edge of a row and the left edge of the next.
        self._stride = width + 1
        self.directions = (1, self._stride, self._stride + 1, self._stride - 1)
        self.cells = [_EDGE] * ((height + 2) * self._stride + 1)
        self.points = [(row + 1) * self._stride + col for row in range(height) for col in range(width)]
        for cell in self.points:
            self.cells[cell] = EMPTY
        self.moves: list[tuple[int, int]] = []  # (cell, colour), in the order they were told
        self.winner = 0

    def cell(self, action: int) -> int:
        """The cell of an action."""
        return self.points[action]

    def action(self, cell: int) -> int:
        """The action of a cell."""
        row, col = divmod(cell, self._stride)
        return (row - 1) * self.width + col

    @property
    def to_play(self) -> int:
        """+1 black, -1 white."""
        return BLACK if len(self.moves) % 2 == 0 else WHITE

    @property
    def over(self) -> bool:
        """Somebody has five, or no point is left to play."""
        return self.winner != 0 or not self.any_legal

    @property
    def empty(self) -> list[int]:
        """The empty cells."""
        cells = self.cells
        return [cell for cell in self.points if cells[cell] == EMPTY]

    def is_forbidden(self, cell: int, color: int) -> bool:
        """Whether renju forbids an empty cell to a colour."""
        return self.rule == "renju" and color == BLACK and is_foul(self.cells, cell, self.directions)

    @property
    def legal(self) -> list[int]:
        """The cells that may be played."""
        return [cell for cell in self.empty if not self.is_forbidden(cell, self.to_play)]

    @property
    def any_legal(self) -> bool:
        """Whether there is a cell that may be played."""
        return any(not self.is_forbidden(cell, self.to_play) for cell in self.empty)

    def run(self, cell: int, color: int, step: int) -> int:
        """How many stones of a colour follow one another next to a cell, in a direction."""
        cells = self.cells
        count = 0
        cell += step
        while cells[cell] == color:
            count += 1
            cell += step
        return count

    def line_ends(self, cell: int, color: int, step: int) -> tuple[int, int]:
        """The two cells behind the run that a stone of a colour on this cell makes along a line."""
        return cell + (self.run(cell, color, step) + 1) * step, cell - (
            self.run(cell, color, -step) + 1
        ) * step

    def wins_at(self, cell: int, color: int) -> bool:
        """Whether a stone of this colour on this cell makes, or is part of, a winning line."""
        longer_wins = self.rule in ("freestyle", "caro_overline") or (self.rule == "renju" and color == WHITE)
        for step in self.directions:
            after, before = self.run(cell, color, step), self.run(cell, color, -step)
            length = 1 + after + before
            if length > STONES_IN_A_ROW and longer_wins:
                return True
            if length == STONES_IN_A_ROW:
                ends = self.line_ends(cell, color, step) if self.rule.startswith("caro") else ()
                if not ends or any(self.cells[end] != -color for end in ends):
                    return True
        return False

    def place(self, cell: int, color: int) -> None:
        """Puts a stone of either colour on an empty cell."""
        self.cells[cell] = color
        self.moves.append((cell, color))
        if not self.winner and self.wins_at(cell, color):
            self.winner = color

    def play(self, cell: int) -> None:
        """The side to move puts a stone on an empty cell."""
        self.place(cell, self.to_play)

    def remove(self, cell: int) -> None:
        """Takes a stone off."""
        self.moves.remove((cell, self.cells[cell]))
        self.cells[cell] = EMPTY
        self.settle()

    def settle(self) -> None:
        """Looks for a winner anew, after the rule or the stones have changed."""
        self.winner = next((color for cell, color in self.moves if self.wins_at(cell, color)), 0)
