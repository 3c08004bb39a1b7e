"""Wins by continuous fours in plain Python: every point is tried, nothing is shared with the package.

Renju's forbidden points are those of the `renju` package.
"""

from renju.check_forbid import get_foul_type

DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
Board = list[list[int]]
Cell = tuple[int, int]


def stone_wins(board: Board, cell: Cell, k: int, rule: str) -> bool:
    """Whether the stone on a cell stands in a winning line."""
    color = board[cell[0]][cell[1]]
    for step in DIRECTIONS:
        length, behind = run_through(board, cell, step)
        ends = [board[row][col] if on_board(board, row, col) else None for row, col in behind]
        if rule == "freestyle" or (rule == "renju" and color == -1):
            wins = length >= k
        elif rule in ("exact", "renju"):
            wins = length == k
        else:
            wins = (length == k and ends != [-color, -color]) or (rule == "caro_overline" and length > k)
        if wins:
            return True
    return False


def run_through(board: Board, cell: Cell, step: Cell) -> tuple[int, list[Cell]]:
    """The stones in the unbroken run through a stone, and the two cells behind it, on the board or not."""
    color, length, behind = board[cell[0]][cell[1]], 1, []
    for sign in (1, -1):
        row, col = cell[0] + sign * step[0], cell[1] + sign * step[1]
        while on_board(board, row, col) and board[row][col] == color:
            length, row, col = length + 1, row + sign * step[0], col + sign * step[1]
        behind.append((row, col))
    return length, behind


def on_board(board: Board, row: int, col: int) -> bool:
    return 0 <= row < len(board) and 0 <= col < len(board[0])


def empty_cells(board: Board) -> list[Cell]:
    return [(r, c) for r, cells in enumerate(board) for c, stone in enumerate(cells) if stone == 0]


def winning_cells(board: Board, k: int, rule: str, color: int) -> list[Cell]:
    """Where a stone of a colour wins at once."""
    found = []
    for row, col in empty_cells(board):
        board[row][col] = color
        if stone_wins(board, (row, col), k, rule):
            found.append((row, col))
        board[row][col] = 0
    return found


def is_legal(board: Board, cell: Cell, rule: str, color: int) -> bool:
    """Whether renju allows a stone on an empty cell; other rules always do."""
    if rule != "renju" or color != 1:
        return True
    side = max(len(board), len(board[0]))  # the package knows squares: white stones are as good as an edge
    grid = [[2] * side for _ in range(side)]
    for r, cells in enumerate(board):
        for c, stone in enumerate(cells):
            grid[r][c] = 2 if stone == -1 else stone
    return get_foul_type(grid, *cell) == 0


def replies(board: Board, k: int, rule: str, color: int) -> list[Cell]:
    """The legal moves of the other side after which `color` cannot win at once."""
    threats = winning_cells(board, k, rule, color)
    found = []
    for row, col in empty_cells(board):
        if not is_legal(board, (row, col), rule, -color):
            continue
        board[row][col] = -color
        if not any(holds(board, cell, k, rule, color) for cell in threats if board[cell[0]][cell[1]] == 0):
            found.append((row, col))
        board[row][col] = 0
    return found


def holds(board: Board, cell: Cell, k: int, rule: str, color: int) -> bool:
    """Whether a stone of a colour on an empty cell wins."""
    board[cell[0]][cell[1]] = color
    wins = stone_wins(board, cell, k, rule)
    board[cell[0]][cell[1]] = 0
    return wins


def has_vcf(board: Board, k: int, rule: str, color: int, fours: int) -> bool:
    """Whether the side to move wins by up to so many fours and a five, whatever the replies."""
    if winning_cells(board, k, rule, color):
        return True
    if fours == 0:
        return False
    for row, col in empty_cells(board):
        if is_legal(board, (row, col), rule, color) and four_wins(board, (row, col), k, rule, color, fours):
            return True
    return False


def four_wins(board: Board, cell: Cell, k: int, rule: str, color: int, fours: int) -> bool:
    """Whether this legal move is a four that wins, followed by up to `fours` - 1 others."""
    row, col = cell
    board[row][col] = color
    try:
        if not winning_cells(board, k, rule, color) or winning_cells(board, k, rule, -color):
            return False
        for r, c in replies(board, k, rule, color):
            board[r][c] = -color
            won = has_vcf(board, k, rule, color, fours - 1)
            board[r][c] = 0
            if not won:
                return False
        return True
    finally:
        board[row][col] = 0
