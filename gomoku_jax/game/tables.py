"""NumPy geometry of a board, built once per size and cached."""

import functools

import numpy as np

# Along a row, along a column, and the two diagonals, as (row, column) steps.
DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))


@functools.lru_cache(maxsize=64)
def ray_table(height: int, width: int, reach: int) -> np.ndarray:
    """Cells met when walking away from each cell: int32 [A, 4, 2, reach].

    Entry [a, d, s, i] is the action `i + 1` steps from `a` along direction d (s = 0) or against it
    (s = 1), or A where that is off the board.
    """
    points = height * width
    row, col = np.divmod(np.arange(points), width)
    table = np.full((points, len(DIRECTIONS), 2, reach), points, np.int32)
    for d, (row_step, col_step) in enumerate(DIRECTIONS):
        for s, sign in enumerate((1, -1)):
            for i in range(reach):
                r = row + sign * row_step * (i + 1)
                c = col + sign * col_step * (i + 1)
                inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
                table[:, d, s, i] = np.where(inside, r * width + c, points)
    table.flags.writeable = False
    return table


@functools.lru_cache(maxsize=64)
def line_table(height: int, width: int, k: int) -> np.ndarray:
    """Every line of k cells: int32 [L, k], with L = H(W-k+1) + W(H-k+1) + 2(H-k+1)(W-k+1).

    A factor below zero counts as zero: a board narrower than k has lines one way only.
    """
    lines = []
    for row_step, col_step in DIRECTIONS:
        for row in range(height):
            for col in range(width):
                end_row, end_col = row + (k - 1) * row_step, col + (k - 1) * col_step
                if 0 <= end_row < height and 0 <= end_col < width:
                    lines.append([(row + i * row_step) * width + col + i * col_step for i in range(k)])
    table = np.asarray(lines, np.int32).reshape(-1, k)
    table.flags.writeable = False
    return table


@functools.lru_cache(maxsize=64)
def line_end_table(height: int, width: int, k: int) -> np.ndarray:
    """The two cells that prolong each line of `line_table`: int32 [L, 2], A where off the board."""
    points = height * width
    rays = ray_table(height, width, 1)[..., 0]  # [A, 4, 2]
    lines = line_table(height, width, k)
    ends = np.full((len(lines), 2), points, np.int32)
    for i, line in enumerate(lines):
        d = next(d for d in range(len(DIRECTIONS)) if rays[line[0], d, 0] == line[1])
        ends[i] = rays[line[-1], d, 0], rays[line[0], d, 1]
    ends.flags.writeable = False
    return ends
