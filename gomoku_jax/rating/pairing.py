"""What is rated: the games of two players, kept as pairs of games on one opening.

The two games of a pair are not independent: an opening that favours black favours one player in the first
and the other in the second. So whatever judges uncertainty counts pairs.
"""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

RESULTS = "WDL-"  # won, drawn, lost, not played
PAIR_RESULTS = tuple(black + white for black in RESULTS for white in RESULTS if black + white != "--")
_POINTS = {"W": 1.0, "D": 0.5, "L": 0.0}
_SWAPPED = str.maketrans("WL", "LW")


@dataclasses.dataclass(frozen=True)
class Pairing:
    """The games of player `a` against player `b`.

    Attributes:
        a: a name.
        b: another.
        outcomes: one per opening, two letters of `W`, `D`, `L`: a's result with the black stones, then with
            the white ones; `-` for a game that was not played, as after an odd number of games.
        distinct_games: different move sequences among the games; None where nobody counted.
    """

    a: str
    b: str
    outcomes: tuple[str, ...]
    distinct_games: int | None = None

    def __post_init__(self):
        if self.a == self.b:
            raise ValueError(f"a pairing of {self.a!r} with itself")
        if not self.outcomes:
            raise ValueError(f"a pairing of {self.a!r} and {self.b!r} without games")
        for outcome in self.outcomes:
            if outcome not in PAIR_RESULTS:
                raise ValueError(f"pair outcome {outcome!r}: two of W, D, L or -, such as WL; not --")

    @property
    def as_black(self) -> tuple[int, int, int]:
        """(wins, draws, losses) of `a` with the black stones."""
        return self._count("".join(outcome[0] for outcome in self.outcomes))

    @property
    def as_white(self) -> tuple[int, int, int]:
        """(wins, draws, losses) of `a` with the white stones."""
        return self._count("".join(outcome[1] for outcome in self.outcomes))

    @property
    def results(self) -> tuple[int, int, int]:
        """(wins, draws, losses) of `a`."""
        return self._count("".join(self.outcomes))

    @property
    def num_games(self) -> int:
        return sum(self.results)

    @property
    def points(self) -> float:
        """Of `a`: a win 1, a draw 1/2."""
        wins, draws, _ = self.results
        return wins + draws / 2

    @property
    def score(self) -> float:
        """Points of `a` per game."""
        return self.points / self.num_games

    @property
    def pair_counts(self) -> np.ndarray:
        """int64 [15]: how often each of `PAIR_RESULTS` occurred."""
        return np.array([self.outcomes.count(kind) for kind in PAIR_RESULTS], np.int64)

    def swapped(self) -> "Pairing":
        """The same games seen by `b`."""
        outcomes = tuple(outcome[::-1].translate(_SWAPPED) for outcome in self.outcomes)
        return Pairing(self.b, self.a, outcomes, self.distinct_games)

    @staticmethod
    def _count(letters: str) -> tuple[int, int, int]:
        return letters.count("W"), letters.count("D"), letters.count("L")


def pair_outcomes(winners: Sequence[int], a_is_black: Sequence[bool]) -> list[str]:
    """The outcomes of a match whose games 2i and 2i + 1 are a pair, such as an arena's `MatchResult`.

    Args:
        winners: per game, +1 black, -1 white, 0 draw.
        a_is_black: per game.

    Raises:
        ValueError: both games of a pair have the same colours.

    >>> pair_outcomes([1, 1, 0], [True, False, True])
    ['WL', 'D-']
    """
    games = list(zip(winners, a_is_black, strict=True))
    outcomes = []
    for first in range(0, len(winners), 2):
        outcome = {True: "-", False: "-"}
        for winner, black in games[first : first + 2]:
            if outcome[bool(black)] != "-":
                raise ValueError(f"games {first} and {first + 1}: the same colours twice")
            outcome[bool(black)] = "D" if winner == 0 else "W" if (winner > 0) == bool(black) else "L"
        outcomes.append(outcome[True] + outcome[False])
    return outcomes


def pair_points(outcome: str) -> tuple[float, int]:
    """Points of `a` in a pair, and how many games it has."""
    played = outcome.replace("-", "")
    return sum(_POINTS[letter] for letter in played), len(played)


def merge_pairings(pairings: Iterable[Pairing]) -> list[Pairing]:
    """One pairing for every two players, in the order they first met.

    Distinct games are added up, as if no game of one match were one of another.
    """
    merged: dict[frozenset[str], Pairing] = {}
    for pairing in pairings:
        key = frozenset((pairing.a, pairing.b))
        known = merged.get(key)
        if known is None:
            merged[key] = pairing
            continue
        if pairing.a != known.a:
            pairing = pairing.swapped()
        counts = (known.distinct_games, pairing.distinct_games)
        distinct = None if None in counts else sum(count for count in counts if count is not None)
        merged[key] = Pairing(known.a, known.b, known.outcomes + pairing.outcomes, distinct)
    return list(merged.values())
