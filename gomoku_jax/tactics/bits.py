"""Boards as rows of bits, and the points of fives and fours on them, a whole row in one operation.

A board is uint32 [H], bit c of row r the point of row r and column c; one such for each colour. Words, for k
in a row: a *five* is a line that wins; a *four* lacks one stone of a five. The names are those of five in a
row, whatever k is.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from gomoku_jax.game import WHITE, Gomoku
from gomoku_jax.game.tables import DIRECTIONS


def to_bits(mask: jax.Array) -> jax.Array:
    """bool [..., H, W] → uint32 [..., H]."""
    weights = jnp.asarray(np.uint32(1) << np.arange(mask.shape[-1], dtype=np.uint32))
    weights = weights.reshape((1,) * (mask.ndim - 1) + (-1,))
    return jnp.where(mask, weights, jnp.uint32(0)).sum(-1, dtype=jnp.uint32)


def from_bits(bits: jax.Array, width: int) -> jax.Array:
    """uint32 [..., H] → bool [..., H, W]."""
    columns = jnp.arange(width, dtype=jnp.uint32).reshape((1,) * bits.ndim + (-1,))
    return ((bits[..., None] >> columns) & 1) != 0


def point_bits(game: Gomoku, point: jax.Array) -> jax.Array:
    """uint32 [H] with one point, int32 [], set; nothing for a negative one."""
    row, col = point // game.width, point % game.width
    rows = jnp.arange(game.height, dtype=jnp.int32)
    bit = jnp.uint32(1) << col.astype(jnp.uint32)
    return jnp.where((rows == row) & (point >= 0), bit, jnp.uint32(0))


def first_point(bits: jax.Array, width: int) -> jax.Array:
    """int32 []: the lowest point of uint32 [H], -1 where there is none."""
    row = jnp.argmax(bits != 0).astype(jnp.int32)
    word = bits[row]
    col = jax.lax.population_count((word & -word) - 1).astype(jnp.int32)
    return jnp.where(word == 0, -1, row * width + col)


def count_points(bits: jax.Array) -> jax.Array:
    """int32 []: how many points of uint32 [H] are set."""
    return jax.lax.population_count(bits).astype(jnp.int32).sum()


def empty_points(game: Gomoku, own: jax.Array, other: jax.Array) -> jax.Array:
    """uint32 [H]: the points without a stone."""
    return ~(own | other) & jnp.uint32((1 << game.width) - 1)


def _shift(bits: jax.Array, steps: int, direction: tuple[int, int]) -> jax.Array:
    """What stands so many steps on along a direction from each point: uint32 [H]; nothing off the board."""
    rows, cols = steps * direction[0], steps * direction[1]
    height = bits.shape[0]
    if rows > 0:
        bits = jnp.pad(bits[min(rows, height) :], (0, min(rows, height)))
    elif rows < 0:
        bits = jnp.pad(bits[: max(height + rows, 0)], (min(-rows, height), 0))
    if abs(cols) >= 32:
        return jnp.zeros_like(bits)
    return bits >> cols if cols > 0 else bits << -cols if cols < 0 else bits


def _windows(
    game: Gomoku, own: jax.Array, other: jax.Array, color: jax.Array, direction: tuple[int, int]
) -> tuple[list[jax.Array], list[jax.Array], jax.Array]:
    """The k cells of each window along a direction, from its first point: own stones and empty cells.

    And whether the window, filled with own stones, is a five: uint32 [H].
    """
    empty = empty_points(game, own, other)
    stones = [_shift(own, i, direction) for i in range(game.k)]
    spaces = [_shift(empty, i, direction) for i in range(game.k)]
    whole = jnp.full_like(own, 0xFFFFFFFF)
    longer = _shift(own, -1, direction) | _shift(own, game.k, direction)
    if game.rule == "freestyle":
        return stones, spaces, whole
    if game.rule == "exact":
        return stones, spaces, ~longer
    if game.rule == "renju":
        return stones, spaces, jnp.where(color == WHITE, whole, ~longer)
    closed = _shift(other, -1, direction) & _shift(other, game.k, direction)
    return stones, spaces, ~closed | longer if game.rule == "caro_overline" else ~closed & ~longer


def five_points(game: Gomoku, own: jax.Array, other: jax.Array, color: jax.Array) -> jax.Array:
    """uint32 [H]: the empty points where a stone makes a five.

    Args:
        game: the rules.
        own: uint32 [H], stones of the colour that is to make it.
        other: uint32 [H], of the other colour.
        color: int8 [], +1 or -1, of `own`.
    """
    found = jnp.zeros_like(own)
    for direction in DIRECTIONS:
        stones, spaces, wins = _windows(game, own, other, color, direction)
        for i in range(game.k):
            others = [stones[j] for j in range(game.k) if j != i]
            window = functools.reduce(jnp.bitwise_and, others, spaces[i] & wins)
            found |= _shift(window, -i, direction)
    return found


_COUNTER_BITS = 5  # no stone stops more than 4 k + 8 lines, and k is 5 or so; 31 and more count as 31


def stopping_points(
    game: Gomoku, own: jax.Array, other: jax.Array, color: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The empty points where a stone of the other side leaves no five of `own`'s, uint32 [H].

    And whether there is a five to stop, bool []; without one no point is told. Under the rules of caro a five
    is stopped at one of its ends, too, where the other is closed. Arguments as for `five_points`.
    """
    empty = empty_points(game, own, other)
    planes = [jnp.zeros_like(own) for _ in range(_COUNTER_BITS)]  # of a counter for each point
    total = jnp.int32(0)

    def count(points: jax.Array) -> None:
        carry = points
        for i, plane in enumerate(planes):
            planes[i], carry = plane ^ carry, plane & carry
        for i, plane in enumerate(planes):  # full is full
            planes[i] = plane | carry

    for direction in DIRECTIONS:
        stones, spaces, wins = _windows(game, own, other, color, direction)
        before, after = -1, game.k
        exact = ~(_shift(own, before, direction) | _shift(own, after, direction))
        shut_before, shut_after = _shift(other, before, direction), _shift(other, after, direction)
        free_before, free_after = _shift(empty, before, direction), _shift(empty, after, direction)
        for i in range(game.k):
            others = [stones[j] for j in range(game.k) if j != i]
            fives = functools.reduce(jnp.bitwise_and, others, spaces[i] & wins)
            total += count_points(fives)
            count(_shift(fives, -i, direction))
            if game.rule in ("caro", "caro_overline"):
                count(_shift(fives & exact & shut_before & free_after, -after, direction))
                count(_shift(fives & exact & shut_after & free_before, -before, direction))
    stops = empty
    for i, plane in enumerate(planes):
        stops &= jnp.where((total >> i) & 1 == 1, plane, ~plane)
    some = (total > 0) & (total < 2**_COUNTER_BITS - 1)
    return jnp.where(some, stops, 0), total > 0


def four_points(
    game: Gomoku, own: jax.Array, other: jax.Array, color: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The empty points where a stone makes a four, uint32 [H], and those where it seems to make two.

    A second four may be the first one again, seen from a window that is longer than a five; arguments are as
    for `five_points`.
    """
    once, twice = jnp.zeros_like(own), jnp.zeros_like(own)
    for direction in DIRECTIONS:
        stones, spaces, wins = _windows(game, own, other, color, direction)
        at: list[jax.Array] = [jnp.zeros_like(own) for _ in range(game.k)]
        for i, j in itertools.combinations(range(game.k), 2):
            others = [stones[c] for c in range(game.k) if c not in (i, j)]
            window = functools.reduce(jnp.bitwise_and, others, spaces[i] & spaces[j] & wins)
            at[i] |= window
            at[j] |= window
        for i, windows in enumerate(at):
            points = _shift(windows, -i, direction)
            twice |= once & points
            once |= points
    return once, twice


def open_four_points(game: Gomoku, own: jax.Array, other: jax.Array, color: jax.Array) -> jax.Array:
    """uint32 [H]: the empty points where a stone makes k - 1 in a row that become a five at either end.

    Arguments as for `five_points`.
    """
    found = jnp.zeros_like(own)
    for direction in DIRECTIONS:
        stones, spaces, wins = _windows(game, own, other, color, direction)
        for i in range(1, game.k):  # the stone's place in the window that begins with the empty end
            first = [stones[c] for c in range(1, game.k) if c != i]
            last = [stones[c] for c in range(game.k - 1) if c != i - 1]
            begins = functools.reduce(jnp.bitwise_and, first, spaces[0] & spaces[i] & wins)
            ends = functools.reduce(jnp.bitwise_and, last, spaces[i - 1] & spaces[game.k - 1] & wins)
            found |= _shift(begins & _shift(ends, 1, direction), -i, direction)
    return found


def board_of(game: Gomoku, own: jax.Array, other: jax.Array, color: jax.Array) -> jax.Array:
    """int8 [H, W]: the board that holds these stones."""
    mine = jnp.where(from_bits(own, game.width), color, jnp.int8(0))
    return jnp.where(from_bits(other, game.width), -color, mine)


def stones_of(board: jax.Array, color: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The stones of a colour, uint32 [H], and of the other, of a board, int8 [H, W]."""
    return to_bits(board == color), to_bits(board == -color)
