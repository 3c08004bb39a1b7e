"""The patterns that tactical puzzles are made of, wherever they fit on a board.

Words as for five in a row: a "four" lacks one stone of a line of k, a "three" two, whatever k is.
"""

import dataclasses
import functools
from typing import Literal

import numpy as np

from gomoku_jax.game import Gomoku
from gomoku_jax.game.tables import line_end_table, line_table

Place = Literal["centre", "edge", "corner"]
PLACES: tuple[Place, ...] = ("centre", "edge", "corner")


@dataclasses.dataclass(frozen=True)
class Motif:
    """A pattern on the board.

    Attributes:
        stones: points of the side whose pattern it is.
        blocks: points of the other side, which close an end.
        free: points that have to stay empty.
        name: its form.
        diagonal: whether it (a pattern of two lines: its first line) lies along a diagonal.
    """

    stones: frozenset[int]
    blocks: frozenset[int]
    free: frozenset[int]
    name: str
    diagonal: bool

    @property
    def points(self) -> frozenset[int]:
        """All points that are spoken for."""
        return self.stones | self.blocks | self.free


def place_of(game: Gomoku, motif: Motif) -> Place:
    """Where a pattern lies.

    "corner" if a stone or free point of it is a corner of the board, else "edge" if one is on the border,
    else "centre". Where no open three fits off the border, free points on the border are no matter.
    """
    row, col = np.divmod(np.asarray(sorted(motif.stones | motif.free)), game.width)
    on_border = (row % (game.height - 1) == 0).astype(int) + (col % (game.width - 1) == 0)
    if (on_border == 2).any():
        return "corner"
    if min(game.shape) - 2 < game.k + 1:
        row, col = np.divmod(np.asarray(sorted(motif.stones)), game.width)
        on_border = (row % (game.height - 1) == 0).astype(int) + (col % (game.width - 1) == 0)
    return "edge" if on_border.any() else "centre"


def _is_diagonal(game: Gomoku, line: list[int]) -> bool:
    return abs(line[1] - line[0]) not in (1, game.width)


@functools.lru_cache(maxsize=32)
def fours(game: Gomoku) -> tuple[Motif, ...]:
    """Lines of k - 1 stones with one winning point: at the "end", the other end closed, or in a "gap"."""
    lines = line_table(game.height, game.width, game.k).tolist()
    ends = line_end_table(game.height, game.width, game.k).tolist()
    found = []
    for line, (after, before) in zip(lines, ends, strict=True):
        for gap, point in enumerate(line):
            name = "end" if gap in (0, game.k - 1) else "gap"
            # A border closes as well as a stone does.
            closed = {0: after, game.k - 1: before}.get(gap, game.num_actions)
            blocks = frozenset({closed} - {game.num_actions})
            stones = frozenset(line) - {point}
            found.append(Motif(stones, blocks, frozenset({point}), name, _is_diagonal(game, line)))
    return tuple(found)


@functools.lru_cache(maxsize=32)
def open_threes(game: Gomoku) -> tuple[Motif, ...]:
    """k - 2 stones that one more turns into an open four: "solid", or "split" by one empty point."""
    k, found = game.k, []
    for segment in line_table(game.height, game.width, k + 1).tolist():
        diagonal = _is_diagonal(game, segment)
        for line in (segment, segment[::-1]):
            stones = frozenset(line[1 : k - 1])
            found.append(Motif(stones, frozenset(), frozenset(line) - stones, "solid", diagonal))
        for gap in range(2, k - 1):
            stones = frozenset(segment[1:k]) - {segment[gap]}
            found.append(Motif(stones, frozenset(), frozenset(segment) - stones, "split", diagonal))
    return tuple(found)


@functools.lru_cache(maxsize=32)
def closed_threes(game: Gomoku) -> tuple[Motif, ...]:
    """k - 2 stones, one end closed: a four can be made of them, but no open one."""
    lines = line_table(game.height, game.width, game.k).tolist()
    ends = line_end_table(game.height, game.width, game.k).tolist()
    found = []
    for line, (after, before) in zip(lines, ends, strict=True):
        for cells, closed in ((line, before), (line[::-1], after)):
            stones = frozenset(cells[: game.k - 2])
            blocks = frozenset({closed} - {game.num_actions})
            found.append(Motif(stones, blocks, frozenset(cells) - stones, "closed", _is_diagonal(game, line)))
    return tuple(found)


def double_four(game: Gomoku, four: Motif, rng: np.random.Generator) -> tuple[Motif, int] | None:
    """Two fours less the point they share, and that point; the first four is given. None if none was met."""
    return _cross(four, fours(game), "double four", rng)


def four_three(game: Gomoku, four: Motif, rng: np.random.Generator) -> tuple[Motif, int] | None:
    """A four and an open three less the point they share, and that point. None if none was met."""
    return _cross(four, open_threes(game), "four and three", rng) if game.k > 3 else None


def _cross(
    first: Motif, others: tuple[Motif, ...], name: str, rng: np.random.Generator
) -> tuple[Motif, int] | None:
    shared = int(rng.choice(sorted(first.stones)))
    crossing = [
        other
        for other in others
        if shared in other.stones
        and other.points & first.points == {shared}  # so it lies along another direction
    ]
    if not crossing:
        return None
    second = crossing[rng.integers(len(crossing))]
    stones = (first.stones | second.stones) - {shared}
    free = first.free | second.free | {shared}
    return Motif(stones, first.blocks | second.blocks, free, name, first.diagonal), shared
