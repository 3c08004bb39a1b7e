"""Renju's forbidden points for Black: overlines, double-fours and double-threes.

A move that makes exactly five is always legal. A *four* is four stones that one more stone makes exactly
five. A *straight four* has two such points, one at each end. A *three* is three stones that one more stone
makes a straight four, where that stone makes no five and is itself legal for Black, by these same rules with
the move on the board. Black may not make two fours or two threes with one move, nor six or more in a row.

Whether a point is forbidden by what is on its four lines alone is read off a table of all neighbourhoods.
Only a point with two threes to be needs more: it is played, the points of its straight fours are judged in
the same way, and so on to any depth up to `MAX_DEPTH`.

The rules of the Renju International Federation, https://www.renju.net/rifrules/, 9.2 and 9.3.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gomoku_jax.game.state import BLACK
from gomoku_jax.game.tables import DIRECTIONS, ray_table

REACH = 5  # cells to either side of a point that can matter to it
# Stones played in thought, one on another. A three at the bound counts as one.
MAX_DEPTH = 12

FOULS = ("double-three", "double-four", "overline")

_OTHER = 2  # a white stone, or off the board; an empty cell is 0 and a black stone 1

# A table entry counts what one line holds, in fields that may be added up over four lines ...
_FIVES, _OVERLINES, _FOURS, _THREES = 1, 1 << 3, 1 << 6, 1 << 10
_ANY_FIVE, _ANY_OVERLINE, _ANY_FOUR, _TWO_FOURS = 7 * _FIVES, 7 * _OVERLINES, 15 * _FOURS, 14 * _FOURS
_TWO_THREES = 6 * _THREES
# ... and above them names up to two straight-four points: the offset along the line + REACH, or 0.
_POINTS = (13, 17)  # shifts, four bits each
_SURE, _MAYBE = 1, 2  # verdicts on a straight-four point: legal, or not known yet

_STEPS = (*range(-REACH, 0), *range(1, REACH + 1))
_POWERS = 3 ** np.arange(2 * REACH)


@functools.lru_cache(maxsize=1)
def line_codes() -> np.ndarray:
    """What a black stone makes on one line, for each neighbourhood: int32 [3 ** 10].

    The index is in base three, the cell five steps back in the lowest digit, the cell itself left out.
    """
    digits = np.arange(3 ** (2 * REACH))[:, None] // _POWERS % 3
    cells = np.insert(digits, REACH, 1, axis=1)  # [n, 11], the stone in the middle
    black, empty = cells == 1, cells == 0
    at = np.arange(len(cells))

    def run(first: int, length: int) -> np.ndarray:
        """Black stones among the cells from the offset `first` on."""
        return black[:, REACH + first : REACH + first + length].sum(1)

    five = np.zeros(len(cells), bool)
    overline = np.zeros(len(cells), bool)
    four_points = np.zeros((len(cells), 2 * REACH + 1), bool)
    for first in range(1 - REACH, 1):
        alone = ~black[:, REACH + first - 1] & ~black[:, REACH + first + REACH]
        window = slice(REACH + first, 2 * REACH + first)
        stones = run(first, REACH)
        five |= alone & (stones == REACH)
        four = alone & (stones == REACH - 1) & (empty[:, window].sum(1) == 1)
        point = REACH + first + empty[:, window].argmax(1)
        four_points[at[four], point[four]] = True
    for first in range(-REACH, 1):
        overline |= run(first, REACH + 1) == REACH + 1

    straight_points = np.zeros_like(four_points)
    straight = np.zeros(len(cells), bool)
    for first in range(2 - REACH, 1):
        before, after = REACH + first - 1, REACH + first + REACH - 1
        ends = empty[:, before] & empty[:, after] & ~black[:, before - 1] & ~black[:, after + 1]
        window = slice(REACH + first, after)
        stones = run(first, REACH - 1)
        straight |= ends & (stones == REACH - 1)
        three = ends & (stones == REACH - 2) & (empty[:, window].sum(1) == 1)
        point = REACH + first + empty[:, window].argmax(1)
        straight_points[at[three], point[three]] = True

    fours = np.minimum(four_points.sum(1) - straight, 2)
    codes = five * _FIVES + overline * _OVERLINES + fours * _FOURS + straight_points.any(1) * _THREES
    for shift in _POINTS:
        point = straight_points.argmax(1)  # 0, which no point has, where there is none
        codes += point << shift
        straight_points[at, point] = False
    codes = codes.astype(np.int32)
    codes.flags.writeable = False
    return codes


def forbidden_points(board: jax.Array, where: jax.typing.ArrayLike = True) -> jax.Array:
    """The points that are forbidden to Black.

    Args:
        board: int8 [H, W], as `State.board`.
        where: bool, [] or [A]: the points that are asked about; the others come out False, and cost less.

    Returns:
        bool [A].
    """
    asked = (board.reshape(-1) == 0) & where
    bad, doubtful = _judge_all(board)
    return _resolve(board, asked & doubtful, asked & bad)


def any_legal_point(board: jax.Array, where: jax.typing.ArrayLike = True) -> jax.Array:
    """bool []: is there an empty point that Black may play? False, too, where `where` (bool []) is False."""
    asked = (board.reshape(-1) == 0) & where
    bad, doubtful = _judge_all(board)
    plain = (asked & ~bad & ~doubtful).any()
    doubtful &= asked & ~plain
    return plain | (doubtful & ~_resolve(board, doubtful, jnp.zeros_like(asked))).any()


def foul(board: jax.Array, action: jax.Array, where: jax.typing.ArrayLike = True) -> jax.Array:
    """What a black stone on the empty point `action` (int32 [], on the board) does wrong.

    Returns:
        int32 []: 0 nothing, or 1 + the place in `FOULS`. 0, too, where `where` (bool []) is False.
    """
    total = _codes_at(_cells(board), action, board.shape).sum()
    five, bad, open_ = _judge(total)
    here = (jnp.arange(board.size) == action) & where
    double_three = _resolve(board, here & ~five & open_, jnp.zeros_like(here))[action]
    kind = jnp.where((total & _TWO_FOURS) != 0, 2, 3)
    return jnp.where(double_three, 1, jnp.where(where & bad & ~five, kind, 0))


def _cells(board: jax.Array) -> jax.Array:
    """int32 [A + 1]: 0 empty, 1 black, 2 white; the last stands for all that is off the board."""
    flat = board.reshape(-1).astype(jnp.int32)
    return jnp.append(jnp.where(flat == BLACK, 1, jnp.where(flat == 0, 0, _OTHER)), _OTHER)


def _all_codes(board: jax.Array) -> list[jax.Array]:
    """The table's entries for all points, int32 [H, W] for each direction."""
    height, width = board.shape
    cells = _cells(board)[:-1].reshape(board.shape)
    cells = jnp.pad(cells, REACH, constant_values=_OTHER)
    codes = []
    for row_step, col_step in DIRECTIONS:
        index = jnp.zeros(board.shape, jnp.int32)
        for power, step in zip(_POWERS, _STEPS, strict=True):
            row, col = REACH + step * row_step, REACH + step * col_step
            index += int(power) * cells[row : row + height, col : col + width]
        codes.append(jnp.asarray(line_codes())[index])
    return codes


def _judge_all(board: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The points that are forbidden, bool [A], and those that need a closer look, bool [A]; stones are any.

    A move and a straight-four point of its three have one line in common. On it the second stone makes the
    straight four and no more; its other lines are as they were before the move. So whether it is legal is
    read off the table too, unless its other lines may hold two threes in turn.
    """
    height, width = board.shape
    codes = jax.lax.optimization_barrier(_all_codes(board))
    total = functools.reduce(jnp.add, codes)
    five, bad, open_ = _judge(total)
    margin = REACH - 1
    sure = jnp.zeros(board.shape, jnp.int32)
    possible = jnp.zeros(board.shape, jnp.int32)
    for code, (row_step, col_step) in zip(codes, DIRECTIONS, strict=True):
        rest = total - code  # what a straight-four point on this line makes on its other three
        refused = (rest & (_ANY_FIVE | _ANY_OVERLINE | _ANY_FOUR)) != 0
        verdict = jnp.where(refused, 0, jnp.where((rest & _TWO_THREES) != 0, _MAYBE, _SURE))
        verdict = jax.lax.optimization_barrier(jnp.pad(verdict.astype(jnp.int8), margin))
        found = jnp.zeros(board.shape, jnp.int8)
        for step in _STEPS[1:-1]:
            row, col = margin + step * row_step, margin + step * col_step
            there = verdict[row : row + height, col : col + width]
            named = functools.reduce(
                jnp.logical_or, [(code >> shift) & 15 == step + REACH for shift in _POINTS]
            )
            found |= jnp.where(named, there, jnp.int8(0))
        sure += (found & _SURE) != 0
        possible += found != 0
    forbidden = (bad & ~five) | (open_ & ~five & (sure >= 2))
    doubtful = open_ & ~five & (sure < 2) & (possible >= 2)
    return jax.lax.optimization_barrier((forbidden.reshape(-1), doubtful.reshape(-1)))


def _codes_at(
    cells: jax.Array, point: jax.Array, shape: tuple[int, ...], thought: jax.Array | None = None
) -> jax.Array:
    """The table's entries for one point, int32 [4], with black stones on the points `thought`, int32 [D]."""
    around = jnp.asarray(ray_table(shape[0], shape[1], REACH))[point]  # [4, 2, 5], walking on and back
    states = cells[around]
    if thought is not None:
        states = jnp.where((around[..., None] == thought[None, None, None]).any(-1), 1, states)
    # Walking back from the point meets the cell five steps back last, and that is the lowest digit.
    powers = jnp.asarray(np.stack([_POWERS[REACH:], _POWERS[REACH - 1 :: -1]])[None], jnp.int32)
    return jnp.asarray(line_codes())[(states * powers).sum((-2, -1))]


def _judge(total: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """What four lines' entries added up say: makes five, is bad without, may be a double-three."""
    bad = (total & (_ANY_OVERLINE | _TWO_FOURS)) != 0
    return (total & _ANY_FIVE) != 0, bad, ~bad & ((total & _TWO_THREES) != 0)


class _Frames(struct.PyTreeNode):
    """The search for double-threes: a stack of stones played in thought, one frame each."""

    root: jax.Array  # int32 [], the point of the board that is judged; A when all are
    forbidden: jax.Array  # bool [A], verdicts so far
    depth: jax.Array  # int32 []
    point: jax.Array  # int32 [D], the stone of each frame; -1 above the deepest
    codes: jax.Array  # int32 [D, 4], what it made
    todo: jax.Array  # int32 [D], bits 2 * direction + which: straight-four points yet to judge
    threes: jax.Array  # int32 [D], bits: directions that hold a three
    verdict: jax.Array  # int32 []: on the stone just taken back: -1 none, 0 legal, 1 not


def _resolve(board: jax.Array, pending: jax.Array, forbidden: jax.Array) -> jax.Array:
    """`forbidden`, bool [A], and those of the `pending` points, bool [A], that are double-threes."""
    cells = _cells(board)
    frames = _Frames(
        root=_next_point(pending, jnp.int32(-1)),
        forbidden=forbidden,
        depth=jnp.int32(0),
        point=jnp.full(MAX_DEPTH, -1, jnp.int32),
        codes=jnp.zeros((MAX_DEPTH, len(DIRECTIONS)), jnp.int32),
        todo=jnp.zeros(MAX_DEPTH, jnp.int32),
        threes=jnp.zeros(MAX_DEPTH, jnp.int32),
        verdict=jnp.int32(-1),
    )
    advance = functools.partial(_advance, cells=cells, pending=pending, shape=board.shape)
    return jax.lax.while_loop(lambda frames: frames.root < pending.size, advance, frames).forbidden


def _advance(frames: _Frames, cells: jax.Array, pending: jax.Array, shape: tuple[int, ...]) -> _Frames:
    """Judges one point: the root, or the next straight-four point of the deepest stone in thought."""
    at_root = frames.depth == 0
    top = jnp.maximum(frames.depth - 1, 0)
    todo, threes = frames.todo[top], frames.threes[top]
    bit = _lowest_bit(todo)
    direction, which = bit // 2, bit % 2
    offset = ((frames.codes[top, direction] >> jnp.where(which == 0, *_POINTS)) & 15) - REACH
    back = (offset < 0).astype(jnp.int32)
    rays = jnp.asarray(ray_table(shape[0], shape[1], REACH))
    point = jnp.where(at_root, frames.root, rays[frames.point[top], direction, back, jnp.abs(offset) - 1])

    # The verdict on the point; where the last round closed a frame, it is the one on that frame's stone.
    closed = frames.verdict >= 0
    made = _codes_at(cells, point, shape, frames.point)
    five, bad, open_ = _judge(made.sum())
    # A root makes no five, or it would not be judged here; a straight-four point must not make one.
    opens = ~closed & open_ & ~five & (frames.depth < MAX_DEPTH)
    refused = jnp.where(closed, frames.verdict == 1, bad | five)

    # An answer goes to the frame below, which may close by it.
    answers = ~opens & ~at_root
    todo = jnp.where(answers, todo & ~jnp.where(refused, 1 << bit, 3 << (2 * direction)), todo)
    threes = jnp.where(answers & ~refused, threes | (1 << direction), threes)
    num_threes = jax.lax.population_count(threes)
    num_left = jax.lax.population_count((todo | (todo >> 1)) & 0b01010101)
    is_double = num_threes >= 2
    closes = answers & (is_double | (num_threes + num_left < 2))

    root_done = ~opens & at_root
    frame = jnp.where(opens, frames.depth, top)
    return _Frames(
        root=jnp.where(root_done, _next_point(pending, frames.root), frames.root),
        forbidden=frames.forbidden.at[jnp.where(root_done, frames.root, pending.size)].set(
            refused, mode="drop"
        ),
        depth=frames.depth + opens - closes,
        point=frames.point.at[frame].set(
            jnp.where(opens, point, jnp.where(closes | at_root, -1, frames.point[top]))
        ),
        codes=frames.codes.at[frame].set(jnp.where(opens, made, frames.codes[top])),
        todo=frames.todo.at[frame].set(jnp.where(opens, _three_bits(made), todo)),
        threes=frames.threes.at[frame].set(jnp.where(opens, 0, threes)),
        verdict=jnp.where(closes, is_double.astype(jnp.int32), -1),
    )


def _next_point(pending: jax.Array, after: jax.Array) -> jax.Array:
    """int32 []: the first of the `pending` points, bool [A], behind `after`, int32 []; else A."""
    points = jnp.arange(pending.size, dtype=jnp.int32)
    return jnp.where(pending & (points > after), points, pending.size).min()


def _three_bits(codes: jax.Array) -> jax.Array:
    """int32 []: bit 2 * direction + which is set for each straight-four point of codes, int32 [4]."""
    bits = [
        ((codes[d] >> shift) & 15 != 0).astype(jnp.int32) << (2 * d + which)
        for d in range(len(DIRECTIONS))
        for which, shift in enumerate(_POINTS)
    ]
    return functools.reduce(jnp.bitwise_or, bits)


def _lowest_bit(bits: jax.Array) -> jax.Array:
    """int32 []: the place of the lowest set bit, or of none, 0."""
    return jnp.where(bits == 0, 0, jax.lax.population_count((bits & -bits) - 1))
