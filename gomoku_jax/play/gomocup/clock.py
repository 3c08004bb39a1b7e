"""How long to think about a move, from what the manager says about time."""

import dataclasses
import math

DEFAULT_TURN_MS = 30_000  # Piskvork's own setting; the protocol names no default
_SMALLEST_MARGIN = 0.05  # seconds between our answer and the manager's clock: pipes, scheduling
_MARGIN = 0.05  # and so much of the time more
_LARGEST_MARGIN = 1.0
_AT_ONCE = 0.02  # timeout_turn 0, "as fast as possible"
_MOVES_OF_A_GAME = 30  # of one side; few games last longer
_FEWEST_MOVES_TO_COME = 10


@dataclasses.dataclass(frozen=True)
class Limits:
    """What INFO has told, in milliseconds.

    Attributes:
        turn: timeout_turn, of one move; 0 is as fast as possible.
        match: timeout_match, of all our moves in a game; 0 is no limit, whatever time_left says; None before.
        left: time_left of the match when it was told; None before. May be negative.
    """

    turn: int = DEFAULT_TURN_MS
    match: int | None = None
    left: int | None = None


@dataclasses.dataclass(frozen=True)
class Budget:
    """Seconds for one move, from when it was asked.

    Attributes:
        soft: the search should end by itself.
        hard: the answer goes out, with the best so far.
    """

    soft: float
    hard: float


def moves_to_come(own_moves: int, empty: int) -> int:
    """How many moves of our own to share the time among: this one and those that may follow."""
    possible = max(1, math.ceil(empty / 2))
    return min(possible, max(_FEWEST_MOVES_TO_COME, _MOVES_OF_A_GAME - own_moves))


def budget(limits: Limits, own_moves: int, empty: int, used: float = 0.0) -> Budget:
    """The time for a move.

    Args:
        limits: as told.
        own_moves: that we have made in this game.
        empty: points on the board.
        used: seconds of our own moves since time_left was told, or else since the game began.
    """
    if limits.turn <= 0:
        soft, hard = _AT_ONCE, 2 * _AT_ONCE
    else:
        turn = limits.turn / 1000
        margin = min(_LARGEST_MARGIN, _SMALLEST_MARGIN + _MARGIN * turn)
        hard = max(0.0, turn - margin)
        soft = max(0.0, min(0.93 * hard, hard - 0.02))
    told = limits.match if limits.left is None else limits.left
    if told is not None and limits.match != 0:
        left = told / 1000 - used
        left = max(0.0, left - max(_SMALLEST_MARGIN, 0.02 * left))
        share = left / moves_to_come(own_moves, empty)
        soft = min(soft, share)
        hard = min(hard, left, max(1.5 * share, share + 0.05))
        soft = min(soft, hard)
    return Budget(soft, hard)
