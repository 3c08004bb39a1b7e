"""Five in a row without NumPy: the engine keeps the position before its libraries are imported."""

BLACK, WHITE, EMPTY = 1, -1, 0
_EDGE = 2
STONES_IN_A_ROW = 5  # in every Gomocup game


class Board:
    """A position, for the freestyle and the exact rule.

    A cell is an index into a list with a border around the board, so that no walk along a line has to look at
    coordinates. `cell` and `action` convert; an action is `row * width + column`, row 0 at the bottom.

    Args:
        width: columns.
        height: rows.
        rule: "freestyle" or "exact".
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
        """Somebody has five, or the board is full."""
        return self.winner != 0 or len(self.moves) == len(self.points)

    @property
    def empty(self) -> list[int]:
        """The empty cells."""
        cells = self.cells
        return [cell for cell in self.points if cells[cell] == EMPTY]

    def run(self, cell: int, color: int, step: int) -> int:
        """How many stones of a colour follow one another next to a cell, in a direction."""
        cells = self.cells
        count = 0
        cell += step
        while cells[cell] == color:
            count += 1
            cell += step
        return count

    def wins_at(self, cell: int, color: int) -> bool:
        """Whether a stone of this colour on this cell makes, or is part of, a winning line."""
        for step in self.directions:
            length = 1 + self.run(cell, color, step) + self.run(cell, color, -step)
            if length == STONES_IN_A_ROW or (length > STONES_IN_A_ROW and self.rule == "freestyle"):
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
