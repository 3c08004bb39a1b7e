"""Tactical puzzles on any board: patterns, stones that mean nothing, and an exact search for the answers."""

import dataclasses
from collections.abc import Iterator
from typing import Literal

import numpy as np

from gomoku_jax.game import Gomoku
from gomoku_jax.suites import motifs
from gomoku_jax.suites.forced import ForcedWins
from gomoku_jax.suites.motifs import PLACES, Motif, Place
from gomoku_jax.symmetry import canonical_board

Kind = Literal["win", "block", "open four", "stop open four", "double four", "four and three"]
KINDS: tuple[Kind, ...] = ("win", "block", "open four", "stop open four", "double four", "four and three")
_ATTACKS = ("win", "open four", "double four", "four and three")  # the side to move has the pattern

_MOVER, _OTHER = 1, -1  # of puzzles before they get their colours
_MOST_MOTIFS = 300  # tried for one puzzle
_FILLINGS = 4  # tried for one motif
_DEEP = 4  # own moves of attacks that must not exist where a side defends; more take minutes on 6x6
_NEAR = 4  # other stones lie at most so far from the pattern


@dataclasses.dataclass(frozen=True)
class Puzzle:
    """One position, without its symmetries.

    Attributes:
        stones: (action, colour) of all stones, +1 black, -1 white.
        to_play: +1 or -1.
        last_action: a stone of the side that is not to move.
        solutions: every move that solves it.
        form: the form of its pattern.
    """

    stones: tuple[tuple[int, int], ...]
    to_play: int
    last_action: int
    solutions: frozenset[int]
    form: str


def make_puzzles(game: Gomoku, kind: Kind, place: Place, count: int) -> list[Puzzle]:
    """Up to `count` puzzles of a kind and place, each for black and for white to move."""
    rng = np.random.default_rng(
        [game.height, game.width, game.k, game.rule == "exact", KINDS.index(kind), PLACES.index(place)]
    )
    found: list[Puzzle] = []
    seen: set[bytes] = set()
    for i in range(count):
        # Forms, lines along and across, and races take turns, in the same order at every place.
        form, race, diagonal = i % 2, i // 2 % 2 == 1, (i + i // 2 + i // 4) % 2 == 1
        for wanted_race in (race, not race):
            pair = next(
                (
                    pair
                    for pair in _attempts(game, kind, place, form, wanted_race, diagonal, rng)
                    if not any(_canonical(game, puzzle) in seen for puzzle in pair)
                ),
                None,
            )
            if pair is not None:
                found += pair
                seen.update(_canonical(game, puzzle) for puzzle in pair)
                break
    return found


def _canonical(game: Gomoku, puzzle: Puzzle) -> bytes:
    """The same bytes for all images of a position."""
    board = np.zeros(game.num_actions, np.int8)
    for action, color in puzzle.stones:
        board[action] = color
    return canonical_board(board.reshape(game.shape))


def _attempts(
    game: Gomoku, kind: Kind, place: Place, form: int, race: bool, diagonal: bool, rng: np.random.Generator
) -> Iterator[tuple[Puzzle, Puzzle]]:
    """Puzzles that hold, of one pattern each: for black and for white to move."""
    crossing = kind in ("double four", "four and three")
    pool = motifs.fours(game) if crossing or kind in ("win", "block") else motifs.open_threes(game)
    pool = [motif for motif in pool if motif.diagonal == diagonal]
    if not crossing:
        names = {motif.name for motif in pool}
        pool = [motif for motif in pool if len(names) == 1 or motif.name == sorted(names)[form]]
    here = [motif for motif in pool if motifs.place_of(game, motif) == place]
    # Of two lines either may be what lies on the edge.
    pools = [some for some in ([here, pool] if crossing else [here]) if some]
    if not pools:
        return
    for number in range(_MOST_MOTIFS):
        some = pools[number % len(pools)]
        motif, key = some[rng.integers(len(some))], -1
        if crossing:
            cross = (motifs.double_four if kind == "double four" else motifs.four_three)(game, motif, rng)
            if cross is None or motifs.place_of(game, cross[0]) != place:
                continue
            motif, key = cross
        start = _start(game, kind, motif, race, rng)
        if start is None:
            continue
        for _ in range(_FILLINGS):
            pair = _colored_pair(game, kind, motif, key, start, race, rng)
            if pair is not None:
                yield pair
                break


def _start(
    game: Gomoku, kind: Kind, motif: Motif, race: bool, rng: np.random.Generator
) -> tuple[dict[int, int], frozenset[int]] | None:
    """The pattern, and in a race the other side's: stones, and points to keep empty. None if that fails."""
    owner = _MOVER if kind in _ATTACKS else _OTHER
    stones = dict.fromkeys(motif.stones, owner) | dict.fromkeys(motif.blocks, -owner)
    if not race:
        return stones, motif.free
    pool = {"win": motifs.fours, "stop open four": motifs.closed_threes}.get(kind, motifs.open_threes)(game)
    for _ in range(20):
        if not pool:
            return None
        counter = pool[rng.integers(len(pool))]
        if not counter.points & motif.points:
            stones |= dict.fromkeys(counter.stones, -owner) | dict.fromkeys(counter.blocks, owner)
            return stones, motif.free | counter.free
    return None


def _colored_pair(
    game: Gomoku,
    kind: Kind,
    motif: Motif,
    key: int,
    start: tuple[dict[int, int], frozenset[int]],
    race: bool,
    rng: np.random.Generator,
) -> tuple[Puzzle, Puzzle] | None:
    """Stones of no meaning make the numbers right: equal for black to move, one more for white."""
    stones, free = dict(start[0]), start[1]
    row, col = np.divmod(np.asarray(sorted(motif.points)), game.width)
    rows, cols = np.divmod(np.arange(game.num_actions), game.width)
    distance = np.maximum(np.abs(rows[:, None] - row), np.abs(cols[:, None] - col)).min(-1)
    near = [int(a) for a in np.flatnonzero(distance <= _NEAR) if a not in stones and a not in free]
    surplus = sum(stones.values())
    pairs = int(rng.integers(3))
    colors = [_OTHER if surplus > 0 else _MOVER] * abs(surplus) + [_MOVER, _OTHER] * pairs + [_OTHER]
    if len(near) < len(colors):
        return None
    points = [int(point) for point in rng.permutation(near)[: len(colors)]]
    filling = dict(zip(points, colors, strict=True))
    puzzles = []
    for mover in (1, -1):
        position = stones | filling
        if mover == 1:
            del position[points[-1]]  # the last stone is there for white only
        solutions = _solutions(game, kind, motif, key, race, position)
        if not solutions:
            return None
        others = {point for point, color in position.items() if color == _OTHER}
        last = min(others & motif.stones or others)  # of the threat, if there is one to answer
        puzzles.append(
            Puzzle(
                tuple(sorted((point, color * mover) for point, color in position.items())),
                mover,
                last,
                frozenset(solutions),
                motif.name + (", race" if race else ""),
            )
        )
    return puzzles[0], puzzles[1]


def _solutions(
    game: Gomoku, kind: Kind, motif: Motif, key: int, race: bool, position: dict[int, int]
) -> set[int]:
    """All solutions; empty if the position is not a clear puzzle of its kind."""
    board = ForcedWins(game, position.items())
    wins, threats = board.winning_points(_MOVER), board.winning_points(_OTHER)
    if board.has_line(_MOVER) or board.has_line(_OTHER):
        return set()
    if kind == "win":
        if wins != motif.free or bool(threats) != race or (not race and board.wins(_OTHER, 2)):
            return set()
        return wins if _only_these_win(board, wins) else set()
    if kind == "block":
        if wins or threats != motif.free:
            return set()
        (point,) = threats
        board.place(point, _MOVER)
        clear = not board.wins_by_fours(_OTHER) and not board.wins(_OTHER, _DEEP)
        board.remove(point)
        return threats if clear else set()
    if wins or threats:
        return set()
    if kind == "stop open four":
        return _defences(board)
    if board.wins(_OTHER, 2) != race:
        return set()
    if kind == "four and three":
        if board.wins(_MOVER, 2):
            return set()
        solutions = board.winning_moves(_MOVER, 3)
        if any(board.wins_by_four(a, _MOVER) for a in board.four_moves(_MOVER) - solutions):
            return set()
        return solutions if key in solutions else set()
    solutions = board.winning_moves(_MOVER, 2)
    if not solutions or not _only_these_win(board, solutions):
        return set()
    in_line = {action for action in solutions if _makes_open_four(board, action)}
    fits = key in solutions and not in_line if kind == "double four" else bool(in_line)
    return solutions if fits else set()


def _only_these_win(board: ForcedWins, solutions: set[int]) -> bool:
    """Does no other move win with three stones, or by fours?"""
    if any(board.wins_by_four(action, _MOVER) for action in board.four_moves(_MOVER) - solutions):
        return False
    return board.winning_moves(_MOVER, 3) == solutions


def _makes_open_four(board: ForcedWins, action: int) -> bool:
    """Does a move make two winning points along one line?"""
    width = board.game.width
    row, col = divmod(action, width)
    board.place(action, _MOVER)
    points = board.winning_points(_MOVER)
    board.remove(action)
    directions = set()
    for point in points:
        up, right = divmod(point, width)[0] - row, point % width - col
        # Along a row 0, a column infinite, diagonals 1 and -1; winning points lie on a line with the stone.
        directions.add(np.inf if right == 0 else up / right)
    return len(points) > len(directions)


def _defences(board: ForcedWins) -> set[int]:
    """The moves that leave the other side no win; empty unless it threatens one and all is clear."""
    replies = board.replies(_OTHER)
    if replies is None or board.wins_by_fours(_MOVER) or board.wins(_MOVER, _DEEP):
        return set()
    solutions = {action for action in replies if not board.wins_after(action, _MOVER, 3)}
    for action in solutions:
        board.place(action, _MOVER)
        if board.winning_points(_MOVER):
            clear = _stands(board)
        else:
            clear = not board.wins_by_fours(_OTHER) and not board.wins(_OTHER, _DEEP)
        board.remove(action)
        if not clear:
            return set()
    return solutions


def _stands(board: ForcedWins) -> bool:
    """After a four of the side to defend and its forced reply: is there still a defence that is no four?

    Fours put a loss off; one that only does so is not to count as a solution.
    """
    (reply,) = board.winning_points(_MOVER)
    board.place(reply, _OTHER)
    quiet = False
    if not board.winning_points(_OTHER):
        replies, fours = board.replies(_OTHER), board.four_moves(_MOVER)
        quiet = replies is None or any(not board.wins_after(a, _MOVER, 3) for a in replies - fours)
    board.remove(reply)
    return quiet
