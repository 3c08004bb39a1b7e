"""What a stone would make along the lines through a point: fives and fours, under any rule.

Words, for k in a row: a *five* is a line that wins; a *four* lacks one stone of a five. The names are those
of five in a row, whatever k is.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import struct

from gomoku_jax.game import WHITE, Gomoku
from gomoku_jax.game.tables import DIRECTIONS, ray_table


class Shapes(struct.PyTreeNode):
    """What a stone on a point makes along one line, or several on a further axis.

    Attributes:
        five: bool, it makes a five.
        fours: bool for either side, walking on (0) and back (1): a stone in the gap there makes a five, then.
        gaps: int32 for either side, how many cells away that gap is.
    """

    five: jax.Array
    fours: tuple[jax.Array, jax.Array]
    gaps: tuple[jax.Array, jax.Array]


def _wins(game: Gomoku, length: jax.Array, closed: jax.Array, color: jax.Array) -> jax.Array:
    """Does an unbroken line win? `closed`: the other side's stones stand at both its ends."""
    if game.rule == "freestyle":
        return length >= game.k
    if game.rule == "exact":
        return length == game.k
    if game.rule == "renju":
        return (length == game.k) | ((length > game.k) & (color == WHITE))
    wins = (length == game.k) & ~closed
    return wins | (length > game.k) if game.rule == "caro_overline" else wins


def line_shapes(
    game: Gomoku,
    own: Sequence[Sequence[jax.Array]],
    empty: Sequence[Sequence[jax.Array]],
    other: Sequence[Sequence[jax.Array]],
    color: jax.Array,
) -> Shapes:
    """The shapes on one line from what stands on it.

    Args:
        game: the rules.
        own: bool arrays of one shape, by side (on, back) and distance (1 to k): stones of the colour.
        empty: the same of empty cells. What is neither of the three is off the board.
        other: the same of the other side's stones.
        color: int8, of the stone.
    """
    one = jnp.int8(1)
    runs, closed, gap_found, gap_at, beyond, beyond_closed = [], [], [], [], [], []
    for mine, free, theirs in zip(own, empty, other, strict=True):
        unbroken = jnp.ones_like(mine[0])
        at_gap = jnp.zeros_like(mine[0])  # the cell before was the gap, or joined to it from behind
        run, past = jnp.zeros_like(mine[0], jnp.int8), jnp.zeros_like(mine[0], jnp.int8)
        found, shut, past_shut = at_gap, at_gap, at_gap
        for stone, space, foe in zip(mine, free, theirs, strict=True):
            past_shut |= at_gap & foe
            at_gap &= stone
            past += jnp.where(at_gap, one, 0)
            shut |= unbroken & foe
            gap = unbroken & space
            found |= gap
            at_gap |= gap
            unbroken &= stone
            run += jnp.where(unbroken, one, 0)
        runs.append(run)
        closed.append(shut)
        gap_found.append(found)
        gap_at.append(run.astype(jnp.int32) + 1)
        beyond.append(past)
        beyond_closed.append(past_shut)
    length = one + runs[0] + runs[1]
    fours = tuple(
        gap_found[s] & _wins(game, length + one + beyond[s], beyond_closed[s] & closed[1 - s], color)
        for s in (0, 1)
    )
    return Shapes(
        five=_wins(game, length, closed[0] & closed[1], color),
        fours=(fours[0], fours[1]),
        gaps=(gap_at[0], gap_at[1]),
    )


def board_shapes(game: Gomoku, board: jax.Array, color: jax.Array) -> list[Shapes]:
    """The shapes of a stone of `color`, int8 [], on every point: for each direction, arrays [H, W]."""
    height, width = game.shape
    reach = game.k

    def planes(mask: jax.Array, direction: tuple[int, int]) -> list[list[jax.Array]]:
        padded = jnp.pad(mask, reach)
        sides = []
        for sign in (1, -1):
            cells = []
            for step in range(1, reach + 1):
                row, col = (reach + sign * step * along for along in direction)
                cells.append(padded[row : row + height, col : col + width])
            sides.append(cells)
        return sides

    own, empty, other = board == color, board == 0, board == -color
    return [line_shapes(game, planes(own, d), planes(empty, d), planes(other, d), color) for d in DIRECTIONS]


def point_shapes(game: Gomoku, board: jax.Array, point: jax.Array, color: jax.Array) -> Shapes:
    """The shapes of a stone of `color`, int8 [], on one point, int32 []: arrays [4], by direction."""
    flat = jnp.append(board.reshape(-1), jnp.int8(2))  # 2 is off the board
    around = flat[jnp.asarray(ray_table(*game.shape, game.k))[point]]  # [4, 2, k]

    def cells(mask: jax.Array) -> list[list[jax.Array]]:
        return [[mask[:, s, i] for i in range(game.k)] for s in (0, 1)]

    return line_shapes(game, cells(around == color), cells(around == 0), cells(around == -color), color)


def gap_points(game: Gomoku, point: jax.Array, shapes: Shapes) -> tuple[jax.Array, jax.Array]:
    """Where one more stone would make a five, once a stone stands on `point`, int32 [].

    Returns:
        int32 [4, 2], the points by direction and side, and bool [4, 2], whether there is such a point.
    """
    rays = jnp.asarray(ray_table(*game.shape, game.k))[point]  # [4, 2, k]
    gaps = jnp.minimum(jnp.stack(shapes.gaps, -1), game.k) - 1
    return jnp.take_along_axis(rays, gaps[..., None], axis=-1)[..., 0], jnp.stack(shapes.fours, -1)
