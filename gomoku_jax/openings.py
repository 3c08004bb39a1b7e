"""Swap and swap2: the stones that are placed before a game, and who takes which colour.

One player places three stones, black, white and black, wherever it likes; the other then chooses a colour.
Under swap2 the other may also place two more, white and black, and leave the choice to the first. White moves
next in any case. Whoever places is thus held to even positions.

Source: https://en.wikipedia.org/wiki/Gomoku#Opening_rules. Pro and long pro are rules of moves: see `Gomoku`.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import numpy as np

from gomoku_jax.game import BLACK, WHITE, Gomoku, IllegalMoveError, State, play_move, replay_moves
from gomoku_jax.symmetry import canonical_position

SWAPS = ("swap", "swap2")
FIRST, SECOND = "first", "second"  # the two players, before they have colours
NUM_STONES, NUM_ADDED = 3, 2
DECISIVE = 0.1  # a value nearer to 0 is too balanced to take a colour, and swap2 adds two stones
POOL = 64  # openings that one is chosen from
FINALISTS = 4  # of them, those that the slower judge is asked about

OpeningRule = Literal["free", "pro", "long_pro", "swap", "swap2"]  # all that people choose from
# Positions after these moves -> float [n] in [-1, 1], their values from the view of the side to move; None of
# a player who has no opinion.
Judge = Callable[[Sequence[Sequence[int]]], np.ndarray]


def check_swap(swap: str, game: Gomoku) -> None:
    """Raises ValueError where there is no such opening of this game."""
    if swap not in SWAPS:
        raise ValueError(f"swap = {swap!r}: choose one of {', '.join(SWAPS)}")
    if game.opening != "free":
        raise ValueError(f"swap = {swap!r}: not together with the {game.opening} opening")


@dataclasses.dataclass(frozen=True)
class Choice:
    """What a player makes of the stones on the board.

    Attributes:
        kind: the colour it takes, or "add": it places two stones and the other chooses.
        stones: of "add", a white and a black one; of "white" its next move, where it is told with the choice.
        value: what it thinks of the position, from White's view; None without an opinion.
    """

    kind: Literal["black", "white", "add"]
    stones: tuple[int, ...] = ()
    value: float | None = None


class OpeningPlayer(Protocol):
    """Who takes part in an opening; `Opener` is such."""

    def check(self, swap: str) -> None:
        """Raises ValueError where it does not play this opening."""
        ...

    def propose(self) -> tuple[int, ...]:
        """The first three stones: black, white, black."""
        ...

    def choose(self, stones: Sequence[int], may_add: bool) -> Choice:
        """What it makes of the stones on the board; White is to move."""
        ...


class SwapOpening:
    """How far an opening has come; changes with `place` and `choose`.

    Args:
        game: the rules.
        swap: "swap" or "swap2".

    Raises:
        ValueError: see `check_swap`.

    >>> opening = SwapOpening(Gomoku(15, 15, 5), "swap2")
    >>> for point in ("a1", "h8", "o15"):
    ...     opening.place(point)
    >>> opening.turn, opening.choices
    ('second', ('white', 'black', 'add'))
    >>> opening.choose("black")
    >>> opening.over, opening.first_color
    (True, -1)
    """

    def __init__(self, game: Gomoku, swap: str):
        check_swap(swap, game)
        self.game, self.swap = game, swap
        self.state: State = game.init()
        self.stones: list[int] = []
        self.turn = FIRST  # who places or chooses
        self.missing = NUM_STONES  # stones that `turn` has to place before anybody chooses
        self.first_color = 0  # once it is over: +1 where the first player is black, -1 where white

    @property
    def over(self) -> bool:
        """The colours are taken; White is to move."""
        return self.first_color != 0

    @property
    def choices(self) -> tuple[str, ...]:
        """What `turn` may choose; empty while stones are missing, and once it is over."""
        if self.missing or self.over:
            return ()
        may_add = self.swap == "swap2" and len(self.stones) == NUM_STONES
        return ("white", "black", "add") if may_add else ("white", "black")

    def place(self, move: int | str) -> None:
        """Places the next stone.

        Args:
            move: an action or a point's name.

        Raises:
            IllegalMoveError: no stone is due, or not there; also where it would end the game.
        """
        number = len(self.stones) + 1
        if not self.missing:
            raise IllegalMoveError(f"move {number}, {move!r}: the opening has {len(self.stones)} stones")
        after = play_move(self.game, self.state, move, number)
        if bool(after.terminated):
            raise IllegalMoveError(f"move {number}, {move!r}: an opening must not end the game")
        self.state = after
        self.stones.append(int(after.last_action))
        self.missing -= 1
        if not self.missing:
            self.turn = SECOND if len(self.stones) == NUM_STONES else FIRST

    def choose(self, kind: str) -> None:
        """Takes a colour, or announces two more stones.

        Raises:
            ValueError: that is no choice now.
        """
        if kind not in self.choices:
            allowed = (
                f"choose one of {', '.join(self.choices)}" if self.choices else "nothing is to be chosen"
            )
            raise ValueError(f"choice = {kind!r}: {allowed}")
        if kind == "add":
            self.missing = NUM_ADDED
            return
        color = BLACK if kind == "black" else WHITE
        self.first_color = color if self.turn == FIRST else -color

    def play(self, first: OpeningPlayer, second: OpeningPlayer) -> None:
        """Lets two players carry the opening to its end. Raises as they, `choose` and `place` do."""
        while not self.over:
            player = first if self.turn == FIRST else second
            if self.missing:
                stones = player.propose()
                if len(stones) != NUM_STONES:
                    raise IllegalMoveError(f"{len(stones)} stones placed: the opening has {NUM_STONES}")
                for stone in stones:
                    self.place(stone)
            else:
                self.apply(player.choose(tuple(self.stones), "add" in self.choices))

    def apply(self, choice: Choice) -> None:
        """A player's whole choice, with the stones that it adds. Raises as `choose` and `place` do."""
        self.choose(choice.kind)
        for stone in choice.stones if choice.kind == "add" else ():
            self.place(stone)
        if choice.kind == "add" and self.missing:
            raise IllegalMoveError(f"{len(choice.stones)} stones added: the opening needs {NUM_ADDED}")


class Opener:
    """Places and chooses by a judge's values, and at random without one.

    Args:
        game: the rules.
        judge: of positions; None has no opinion.
        seed: of the random openings that are looked at; None draws one.
        quick: a faster judge for the many positions that stones to place are chosen from; by default `judge`.
    """

    def __init__(
        self, game: Gomoku, judge: Judge | None = None, seed: int | None = 0, quick: Judge | None = None
    ):
        self.game, self._judge, self._quick = game, judge, quick or judge
        self._rng = np.random.default_rng(seed)

    def check(self, swap: str) -> None:
        """It plays both. Raises as `check_swap`."""
        check_swap(swap, self.game)

    def propose(self) -> tuple[int, ...]:
        """Three stones that leave the board even as far as the judge sees: the best of `POOL` random ones."""
        return self.proposals(1)[0]

    def proposals(self, count: int) -> list[tuple[int, ...]]:
        """So many openings of three stones, the most even first; all different unless the board is tiny."""
        pool = random_openings(self.game, NUM_STONES, max(POOL, 4 * count), self._rng)
        pool = _most_even(pool, self._quick)
        if self._judge is not self._quick:  # which is slow: asked about few
            pool = _most_even(pool[: max(FINALISTS, 2 * count)], self._judge)
        return [pool[i % len(pool)] for i in range(count)]

    def choose(self, stones: Sequence[int], may_add: bool) -> Choice:
        """White where the judge prefers it, Black where not; where it is even, two more stones if it may."""
        return self.choose_all([stones], [may_add])[0]

    def choose_all(self, openings: Sequence[Sequence[int]], may_add: Sequence[bool]) -> list[Choice]:
        """`choose` for several openings, which are judged at once."""
        values = [None] * len(openings) if self._judge is None else self._judge(openings).tolist()
        return [self._decide(*each) for each in zip(openings, may_add, values, strict=True)]

    def _decide(self, stones: Sequence[int], may_add: bool, value: float | None) -> Choice:
        if value is None:
            return Choice("white" if self._rng.integers(2) else "black")
        if may_add and abs(value) < DECISIVE:
            added = self._added(stones)
            if added:
                return Choice("add", added, value)
        return Choice("white" if value >= 0 else "black", (), value)

    def _added(self, stones: Sequence[int]) -> tuple[int, ...]:
        """Two stones that leave the board even; none where there is no place for them."""
        pool = random_openings(self.game, len(stones) + NUM_ADDED, POOL, self._rng, begin=stones)
        return _most_even(pool, self._quick)[0][len(stones) :] if pool else ()


def _most_even(openings: list[tuple[int, ...]], judge: Judge | None) -> list[tuple[int, ...]]:
    """By the size of their values, as they were where nobody judges."""
    if judge is None:
        return openings
    return [openings[i] for i in np.argsort(np.abs(judge(openings)), kind="stable")]


def random_openings(
    game: Gomoku, num_stones: int, count: int, rng: np.random.Generator, begin: Sequence[int] = ()
) -> list[tuple[int, ...]]:
    """Random openings that the rules allow and that do not end the game.

    Args:
        game: the rules.
        num_stones: of each, black first.
        count: openings; fewer where a small board has no more. No two are one position, turned or mirrored.
        rng: gives the points.
        begin: the first stones of all.
    """
    free = np.setdiff1d(np.arange(game.num_actions), np.asarray(begin, np.int64))
    found: dict[tuple, tuple[int, ...]] = {}
    for _ in range(8 * count):
        if len(found) == count or len(free) < num_stones - len(begin):
            break
        more = rng.choice(free, num_stones - len(begin), replace=False)
        moves = (*map(int, begin), *map(int, more))
        key = canonical_position(*game.shape, moves)
        if key not in found and _is_playable(game, moves):
            found[key] = moves
    return list(found.values())


def _is_playable(game: Gomoku, moves: Sequence[int]) -> bool:
    if (len(moves) + 1) // 2 < min(game.k, 4):
        return True  # too few stones for a line, and for anything that renju forbids
    try:
        return not bool(replay_moves(game, moves).terminated)
    except IllegalMoveError:
        return False
