"""Is it stronger? A sequential test that stops as soon as the games tell.

The generalized sequential probability ratio test of fishtest (https://github.com/official-stockfish/fishtest,
`LLRcalc.py`; its theory: M. Van den Bergh, "A practical introduction to the GSPRT"): what is counted are
pairs of games on one opening, by their points (0, 1/2, 1, 3/2, 2: "pentanomial"), and the two hypotheses fix
the expected score only; all else is estimated under each of them by maximum likelihood.

Elo here is the score's: an expected score of 1 / (1 + 10^(-elo / 400)). Without draws that is the scale of
`fit_elo`; with draws, one point of `fit_elo` is less than a point here.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq

from gomoku_jax.rating.pairing import pair_points

_PAIR_SCORES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
_ABSENT = 1e-3  # pairs in place of none, as in fishtest: a kind not seen yet is not impossible


@dataclasses.dataclass(frozen=True)
class SprtState:
    """Where a test stands.

    Attributes:
        llr: log-likelihood ratio of H1 to H0, natural logarithm.
        lower, upper: H0 is accepted at or below `lower`, H1 at or above `upper`.
        decision: "H0", "H1", or None: go on.
    """

    llr: float
    lower: float
    upper: float
    decision: Literal["H0", "H1"] | None


def expected_score(elo: float) -> float:
    """Points a game of the player that is `elo` stronger; logistic.

    >>> expected_score(400)
    0.9090909090909091
    """
    return 1 / (1 + 10 ** (-elo / 400))


def pentanomial(outcomes: Iterable[str]) -> np.ndarray:
    """int64 [5]: pairs with 0, 1/2, 1, 3/2 and 2 points of `a`; a pair with one game is left out.

    >>> pentanomial(["WW", "WL", "DL", "W-"]).tolist()
    [0, 1, 1, 0, 1]
    """
    counts = np.zeros(5, np.int64)
    for outcome in outcomes:
        points, games = pair_points(outcome)
        if games == 2:
            counts[round(2 * points)] += 1
    return counts


def sprt(
    counts: Sequence[int] | np.ndarray,
    elo0: float,
    elo1: float,
    alpha: float = 0.05,
    beta: float = 0.05,
) -> SprtState:
    """The test of H0: elo <= elo0 against H1: elo >= elo1, after the pairs so far. A pure function.

    Args:
        counts: [5], pairs by points, see `pentanomial`.
        elo0: of player `a` above `b`, under H0.
        elo1: under H1; greater.
        alpha: how often H1 may be accepted where H0 holds.
        beta: how often H0 may be accepted where H1 holds.

    Raises:
        ValueError: elo1 not above elo0, alpha or beta not between 0 and 1/2, or not five counts.
    """
    if not elo0 < elo1 or not (math.isfinite(elo0) and math.isfinite(elo1)):
        raise ValueError(f"elo0 = {elo0}, elo1 = {elo1}: the second has to be greater")
    for name, rate in (("alpha", alpha), ("beta", beta)):
        if not 0 < rate < 0.5:
            raise ValueError(f"{name} = {rate}: between 0 and 0.5")
    seen = np.asarray(counts, float)
    if seen.shape != (5,) or (seen < 0).any():
        raise ValueError(f"counts = {counts}: five numbers of pairs, by 0, 1/2, 1, 3/2, 2 points")
    lower, upper = math.log(beta / (1 - alpha)), math.log((1 - beta) / alpha)
    if seen.sum() == 0:
        return SprtState(0.0, lower, upper, None)
    number = np.maximum(seen, _ABSENT)
    likelier = [_fit_mean(number / number.sum(), expected_score(elo)) for elo in (elo0, elo1)]
    llr = float((number * (np.log(likelier[1]) - np.log(likelier[0]))).sum())
    return SprtState(llr, lower, upper, "H0" if llr <= lower else "H1" if llr >= upper else None)


def _fit_mean(observed: np.ndarray, mean: float) -> np.ndarray:
    """The likeliest distribution over pair scores that has this mean, given observed shares [5], all > 0.

    By Lagrange: observed / (1 + x (score - mean)), with the x that gives the mean.
    """
    offsets = _PAIR_SCORES - mean

    def excess(x: float) -> float:
        return float((observed * offsets / (1 + x * offsets)).sum())

    # Falls from +inf to -inf between the poles.
    low, high = -1 / offsets[-1], -1 / offsets[0]
    margin = 1e-9 * (high - low)
    x: Any = brentq(excess, low + margin, high - margin, xtol=1e-12)
    return observed / (1 + x * offsets)


@dataclasses.dataclass(frozen=True)
class SprtResult:
    """A finished test.

    Attributes:
        state: at its end; without a decision the maximum was reached.
        outcomes: of all pairs played.
        elo0, elo1, alpha, beta: what was tested.
    """

    state: SprtState
    outcomes: tuple[str, ...]
    elo0: float
    elo1: float
    alpha: float
    beta: float

    @property
    def num_pairs(self) -> int:
        return len(self.outcomes)

    def __str__(self) -> str:
        state = self.state
        hypotheses = {"H0": f"elo <= {self.elo0:g}", "H1": f"elo >= {self.elo1:g}"}
        verdict = (
            "no decision"
            if state.decision is None
            else f"{state.decision} accepted ({hypotheses[state.decision]})"
        )
        return (
            f"SPRT of elo <= {self.elo0:g} against elo >= {self.elo1:g} (alpha {self.alpha:g}, "
            f"beta {self.beta:g}): {verdict} after {self.num_pairs} pairs; log-likelihood ratio "
            f"{state.llr:.2f}, bounds {state.lower:.2f} and {state.upper:.2f}"
        )


def run_sprt(
    play: Callable[[int, int], Sequence[str]],
    elo0: float,
    elo1: float,
    alpha: float = 0.05,
    beta: float = 0.05,
    max_pairs: int = 1000,
    batch_pairs: int = 20,
    on_batch: Callable[[int, SprtState], bool | None] | None = None,
) -> SprtResult:
    """Plays batches of pairs until the test decides or the maximum is reached.

    The test looks after each batch, not after each pair: it takes up to a batch more, and errs no more often.

    Args:
        play: `(number of the batch, pairs wanted) -> outcomes`; the number can serve as a seed.
        elo0: as for `sprt`; so are the next three.
        elo1: see there.
        alpha: see there.
        beta: see there.
        max_pairs: where to stop without a decision; the last batch is cut to it.
        batch_pairs: pairs played at once.
        on_batch: is told the pairs so far and the state after each batch; may return True to stop the test.

    Raises:
        ValueError: as `sprt`, before anything is played; or sizes below 1.
    """
    if max_pairs < 1 or batch_pairs < 1:
        raise ValueError(f"max_pairs = {max_pairs}, batch_pairs = {batch_pairs}: at least 1")
    state = sprt(np.zeros(5), elo0, elo1, alpha, beta)
    outcomes: list[str] = []
    number = 0
    while len(outcomes) < max_pairs and state.decision is None:
        outcomes += play(number, min(batch_pairs, max_pairs - len(outcomes)))
        state = sprt(pentanomial(outcomes), elo0, elo1, alpha, beta)
        number += 1
        if on_batch is not None and on_batch(len(outcomes), state):
            break
    return SprtResult(state, tuple(outcomes), elo0, elo1, alpha, beta)
