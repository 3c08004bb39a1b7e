"""An independent Gomoku in plain Python: whole-board scans, no code shared with the package.

Two judges: `winners` scans the runs of every full row, column and diagonal, and `Solver` holds boards as
bit masks and tries every line. Any sides and any k, so that published tables of small games check it.
"""

import itertools

import numpy as np

Cell = tuple[int, int]


def straight_lines(height: int, width: int) -> list[list[Cell]]:
    """Every full row, column, diagonal and anti-diagonal."""
    cells = list(itertools.product(range(height), range(width)))
    keys = (lambda r, c: r, lambda r, c: c, lambda r, c: r - c, lambda r, c: r + c)
    found = []
    for key in keys:
        groups: dict[int, list[Cell]] = {}
        for row, col in cells:
            groups.setdefault(key(row, col), []).append((row, col))
        found += groups.values()
    return found


def lines_of(height: int, width: int, k: int) -> list[list[Cell]]:
    """Every line of k cells."""
    return [line[i : i + k] for line in straight_lines(height, width) for i in range(len(line) - k + 1)]


def num_lines(height: int, width: int, k: int) -> int:
    """How many lines of k cells there are, in closed form."""
    across, up = max(width - k + 1, 0), max(height - k + 1, 0)
    return height * across + width * up + 2 * across * up


def winning_runs(board, k: int, rule: str) -> list[tuple[int, list[Cell]]]:
    """Every unbroken run that wins, as (colour, cells)."""
    height, width = len(board), len(board[0])
    found = []
    for line in straight_lines(height, width):
        for colour, group in itertools.groupby(line, key=lambda cell: int(board[cell[0]][cell[1]])):
            run = list(group)
            if colour and run_wins(board, line, run, k, rule):
                found.append((colour, run))
    return found


def run_wins(board, line: list[Cell], run: list[Cell], k: int, rule: str) -> bool:
    """Does an unbroken run of stones on a full row, column or diagonal win? Any rule but renju."""
    if rule == "freestyle":
        return len(run) >= k
    if rule == "caro_overline" and len(run) > k:
        return True
    if len(run) != k or rule == "exact":
        return len(run) == k
    assert rule in ("caro", "caro_overline")
    first, last = line.index(run[0]), line.index(run[-1])
    ends = [line[i] for i in (first - 1, last + 1) if 0 <= i < len(line)]  # none is off the board
    colour = board[run[0][0]][run[0][1]]
    return [board[row][col] for row, col in ends] != [-colour, -colour]


def winners(board, k: int, rule: str) -> set[int]:
    """The colours that have a winning line."""
    return {colour for colour, _ in winning_runs(board, k, rule)}


class Game:
    """One game with play and undo. Illegal moves change nothing and answer False."""

    def __init__(self, height: int, width: int, k: int, rule: str):
        self.height, self.width, self.k, self.rule = height, width, k, rule
        self.board = [[0] * width for _ in range(height)]
        self.moves: list[int] = []
        self.winner = 0
        self.line: set[Cell] = set()

    @property
    def to_play(self) -> int:
        """+1 or -1, who moves next (or would)."""
        return 1 if len(self.moves) % 2 == 0 else -1

    @property
    def terminated(self) -> bool:
        """Won, or no empty point."""
        return self.winner != 0 or len(self.moves) == self.height * self.width

    @property
    def last_action(self) -> int:
        """The last move, -1 before the first."""
        return self.moves[-1] if self.moves else -1

    def is_legal(self, action: int) -> bool:
        """On the board, on an empty point, in a running game."""
        if self.terminated or not 0 <= action < self.height * self.width:
            return False
        return self.board[action // self.width][action % self.width] == 0

    def play(self, action: int) -> bool:
        """Plays one action if it is legal."""
        if not self.is_legal(action):
            return False
        self.board[action // self.width][action % self.width] = self.to_play
        self.moves.append(action)
        runs = winning_runs(self.board, self.k, self.rule)
        if runs:
            self.winner = runs[0][0]
            self.line = {cell for _, run in runs for cell in run}
        return True

    def undo(self) -> None:
        """Takes the last move back."""
        action = self.moves.pop()
        self.board[action // self.width][action % self.width] = 0
        self.winner, self.line = 0, set()

    def line_mask(self) -> np.ndarray:
        """Bool [H, W]: the stones that won."""
        mask = np.zeros((self.height, self.width), bool)
        for cell in self.line:
            mask[cell] = True
        return mask


class Solver:
    """Exact values of small games by alpha-beta with a memo, and counts of games. Boards are bit masks."""

    def __init__(self, height: int, width: int, k: int, rule: str):
        self.points = height * width
        self.full = (1 << self.points) - 1
        self.exact = rule == "exact"
        self.masks: list[tuple[int, int]] = []  # the line, and the cells that would make it longer
        for line in straight_lines(height, width):
            bits = [1 << (row * width + col) for row, col in line]
            for i in range(len(line) - k + 1):
                ends = (bits[i - 1] if i else 0) | (bits[i + k] if i + k < len(bits) else 0)
                self.masks.append((sum(bits[i : i + k]), ends))
        self.memo: dict[tuple[int, int], tuple[int, int]] = {}
        bits = [1 << i for i in range(self.points)]
        self.order = sorted(bits, key=lambda bit: -sum(bit & line != 0 for line, _ in self.masks))

    def won(self, stones: int) -> bool:
        """Do these stones contain a winning line?"""
        if self.exact:
            return any(stones & line == line and not stones & ends for line, ends in self.masks)
        return any(stones & line == line for line, _ in self.masks)

    def _winning_points(self, stones: int, empty: int) -> int:
        """The empty points where one more stone wins."""
        points = 0
        for line, _ in self.masks:
            gap = line & ~stones
            if gap & empty == gap and gap & (gap - 1) == 0 and (not self.exact or self.won(stones | gap)):
                points |= gap
        return points

    def value(self, own: int = 0, other: int = 0, alpha: int = -1, beta: int = 1) -> int:
        """Value of a running game for the side to move: 1, 0 or -1, within [alpha, beta]."""
        empty = self.full & ~(own | other)
        if not empty:
            return 0
        low, high = self.memo.get((own, other), (-1, 1))
        if not any(not line & other for line, _ in self.masks):
            high = 0  # no line is left to the side to move
        if not any(not line & own for line, _ in self.masks):
            low = max(low, 0)
        alpha, beta = max(alpha, low), min(beta, high)
        if alpha >= beta:
            return low if low >= beta else high
        if self._winning_points(own, empty):
            best = 1
        else:
            threats = self._winning_points(other, empty)
            if threats & (threats - 1):
                best = -1  # two points to block
            else:
                best = -1
                for move in self.order:
                    if move & (threats or empty):
                        best = max(best, -self.value(other, own | move, -beta, -max(alpha, best)))
                        if best >= beta:
                            break
        self.memo[own, other] = (
            best if best > alpha else low,
            best if best < beta else high,
        )
        return best

    def first_move_values(self) -> list[int]:
        """The first player's value after each first move."""
        values = []
        for action in range(self.points):
            values.append(1 if self.won(1 << action) else -self.value(0, 1 << action))
        return values

    def perft(self, depth: int) -> tuple[list[tuple[int, int, int]], int]:
        """Games counted by ply, as (running, won so far, drawn so far), and how many positions were met."""
        layer, rows, positions = {(0, 0): 1}, [], 1
        won = drawn = 0
        for _ in range(depth):
            running: dict[tuple[int, int], int] = {}
            ended = set()
            for (own, other), count in layer.items():
                left = self.full & ~(own | other)
                while left:
                    move = left & -left
                    left ^= move
                    child = (other, own | move)
                    if self.won(child[1]):
                        won += count
                        ended.add(child)
                    elif child[0] | child[1] == self.full:
                        drawn += count
                        ended.add(child)
                    else:
                        running[child] = running.get(child, 0) + count
            layer = running
            positions += len(running) + len(ended)
            rows.append((sum(running.values()), won, drawn))
        return rows, positions
