"""Tactical puzzles with all their answers, in the centre, on the edge and in the corner of any board.

Made by rule and chance with fixed seeds, kept where an exact search finds the answers: win in one, block,
make an open four, stop one, double four, four and three. Each position comes for both colours to move and in
all symmetries of the board, so a pattern is met in every direction.
"""

import dataclasses
import functools
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from gomoku_jax.arena import wilson_interval
from gomoku_jax.encode import states_from_positions
from gomoku_jax.game import Gomoku, State
from gomoku_jax.players import Player
from gomoku_jax.suites.motifs import PLACES
from gomoku_jax.suites.puzzles import KINDS, Puzzle, make_puzzles
from gomoku_jax.symmetry import image_table


@dataclasses.dataclass(frozen=True, eq=False)
class TacticalSuite:
    """M puzzles of one game; NumPy.

    Attributes:
        game: the board and rule.
        board: int8 [M, H, W], +1 black, -1 white. Black to move has as many stones as white, white one less.
        to_play: int8 [M].
        last_action: int32 [M], a stone of the side that is not to move.
        solutions: bool [M, A], every move that solves the puzzle.
        kind: str [M], one of `KINDS`.
        place: str [M], "centre", "edge" or "corner".
        form: str [M], the form of the pattern, with ", race" where the other side has a pattern too.
        symmetry: int8 [M], the row of `image_table` that made it.
        puzzle: int32 [M], the same for the images of one position.
    """

    game: Gomoku
    board: np.ndarray
    to_play: np.ndarray
    last_action: np.ndarray
    solutions: np.ndarray
    kind: np.ndarray
    place: np.ndarray
    form: np.ndarray
    symmetry: np.ndarray
    puzzle: np.ndarray

    def __len__(self) -> int:
        return len(self.board)

    def states(self) -> State:
        """The positions as states [M]."""
        return states_from_positions(
            jnp.asarray(self.board), jnp.asarray(self.to_play), jnp.asarray(self.last_action)
        )

    def take(self, rows: np.ndarray) -> "TacticalSuite":
        """Some of the puzzles: bool [M] or indices."""
        names = [field.name for field in dataclasses.fields(self) if field.name != "game"]
        return dataclasses.replace(self, **{name: getattr(self, name)[rows] for name in names})


@functools.lru_cache(maxsize=16)
def tactics_suite(game: Gomoku, patterns_per_group: int = 4) -> TacticalSuite:
    """The puzzles of a board; the same at every call.

    A move of a side wins "in n" if that side wins with at most n stones, this one included, against every
    defence. What solves a puzzle, where a "four" lacks one stone of a line whatever k is, and a "three" two:

    * "win": a move that wins at once.
    * "block": the one move after which the other side does not win at once.
    * "open four" and "double four": a move that wins in 2; it makes two points to win at.
    * "four and three": a move that wins in 3.
    * "stop open four": a move after which the other side has no win in 3; fours of one's own can be such.

    Ambiguous positions are left out. In attack no other move wins in 3 or by up to eight fours in a row. In
    defence the side to move has no such win itself, nor has the other side one after a solution, nor one in 4
    by threats, and a four that only puts the loss off is no solution. In a "race" the other side has a
    pattern as well: in attack one that wins unless the attack comes first, in defence one that there is no
    time to play.

    Args:
        game: the board and rule. Kinds and places that have no puzzle on it are absent.
        patterns_per_group: for each kind and place. Each makes two puzzles, one for each colour to move, and
            each puzzle 8 positions on a square, 4 on other rectangles.

    Raises:
        ValueError: patterns_per_group below 1.
    """
    if patterns_per_group < 1:
        raise ValueError(f"patterns_per_group = {patterns_per_group}: at least 1")
    rows: list[dict[str, Any]] = []
    number = 0
    for kind in KINDS:
        for place in PLACES:
            for puzzle in make_puzzles(game, kind, place, patterns_per_group):
                shared = {"kind": kind, "place": place, "form": puzzle.form, "puzzle": number}
                rows += [row | shared for row in _images(game, puzzle)]
                number += 1
    suite = TacticalSuite(
        game,
        board=np.asarray([row["board"] for row in rows], np.int8).reshape(-1, *game.shape),
        to_play=np.asarray([row["to_play"] for row in rows], np.int8),
        last_action=np.asarray([row["last_action"] for row in rows], np.int32),
        solutions=np.asarray([row["solutions"] for row in rows], bool).reshape(-1, game.num_actions),
        kind=np.asarray([row["kind"] for row in rows], str),
        place=np.asarray([row["place"] for row in rows], str),
        form=np.asarray([row["form"] for row in rows], str),
        symmetry=np.asarray([row["symmetry"] for row in rows], np.int8),
        puzzle=np.asarray([row["puzzle"] for row in rows], np.int32),
    )
    for field in dataclasses.fields(suite)[1:]:
        getattr(suite, field.name).flags.writeable = False  # the next caller gets the same arrays
    return suite


def _images(game: Gomoku, puzzle: Puzzle) -> list[dict[str, Any]]:
    """A position in all symmetries; once only where it is its own image."""
    found: dict[bytes, dict[str, Any]] = {}
    for symmetry, image in enumerate(image_table(game.height, game.width)):
        board, solutions = np.zeros(game.num_actions, np.int8), np.zeros(game.num_actions, bool)
        for action, color in puzzle.stones:
            board[image[action]] = color
        solutions[image[sorted(puzzle.solutions)]] = True
        row = {
            "board": board.reshape(game.shape),
            "to_play": puzzle.to_play,
            "last_action": image[puzzle.last_action],
            "solutions": solutions,
            "symmetry": symmetry,
        }
        found.setdefault(board.tobytes(), row)
    return list(found.values())


@dataclasses.dataclass(frozen=True)
class SolveRate:
    """How many puzzles of a group were solved.

    Attributes:
        kind, place: the group; None for all.
        solved: positions solved.
        positions: positions asked.
        puzzles: positions that are no images of each other.
    """

    kind: str | None
    place: str | None
    solved: int
    positions: int
    puzzles: int

    @property
    def rate(self) -> float:
        return self.solved / self.positions

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's at 95 %, counting every puzzle once: its images are no independent trials."""
        return wilson_interval(self.rate, self.puzzles)


@dataclasses.dataclass(frozen=True, eq=False)
class SolveRates:
    """What a player did on a suite.

    Attributes:
        suite: the puzzles.
        actions: int32 [M], the player's moves.
        solved: bool [M].
    """

    suite: TacticalSuite
    actions: np.ndarray
    solved: np.ndarray

    def rate(self, kind: str | None = None, place: str | None = None) -> SolveRate | None:
        """The rate of a kind, of a place, of both, or of all; None where there is no such puzzle."""
        rows = np.ones(len(self.suite), bool)
        rows &= self.suite.kind == kind if kind is not None else True
        rows &= self.suite.place == place if place is not None else True
        if not rows.any():
            return None
        puzzles = len(np.unique(self.suite.puzzle[rows]))
        return SolveRate(kind, place, int(self.solved[rows].sum()), int(rows.sum()), puzzles)

    def rates(self) -> list[SolveRate]:
        """Of each kind and place, of each kind, of each place, and of all."""
        groups = [self.rate(kind, place) for kind in (*KINDS, None) for place in (*PLACES, None)]
        return [group for group in groups if group is not None]


def solve_rates(player: Player, suite: TacticalSuite, key: jax.Array, batch_size: int = 64) -> SolveRates:
    """Asks a player for its move in every puzzle.

    Args:
        player: `(key, states [B]) -> actions int32 [B]`; compiled once, for `batch_size` positions.
        suite: the puzzles.
        key: typed PRNG key of the player. Consumed.
        batch_size: positions at once: 64 of 15x15 with 400 simulations take a few hundred megabytes.

    Raises:
        ValueError: the suite is empty, or batch_size below 1.
    """
    if not len(suite):
        raise ValueError(f"no tactical puzzle fits {suite.game}")
    actions = ask_moves(player, suite, key, batch_size)
    return SolveRates(suite, actions, suite.solutions[np.arange(len(suite)), actions])


class _Suite(Protocol):
    """M positions."""

    def __len__(self) -> int: ...
    def take(self, rows: np.ndarray, /) -> "_Suite": ...
    def states(self) -> State: ...


def ask_moves(player: Player, suite: _Suite, key: jax.Array, batch_size: int) -> np.ndarray:
    """int32 [M]: a player's move in every position of a suite that has some. Consumes `key`.

    Raises:
        ValueError: batch_size below 1.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size = {batch_size}: at least 1")
    play, parts = jax.jit(player), []
    for start in range(0, len(suite), batch_size):
        rows = np.arange(start, start + batch_size) % len(suite)  # the last batch is filled up from the front
        states = suite.take(rows).states()
        parts.append(np.asarray(play(jax.random.fold_in(key, start), states)))
    return np.concatenate(parts)[: len(suite)]
