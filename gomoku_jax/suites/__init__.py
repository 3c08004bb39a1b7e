"""Positions with right answers, and how agents do on them."""

from gomoku_jax.suites.fours import (
    FoursSuite,
    KeptRate,
    KeptWins,
    fours_suite,
    keeps_win,
    kept_wins,
)
from gomoku_jax.suites.perfect_play import (
    PerfectPlay,
    Share,
    SolvedPositions,
    kept_share,
    load_solved,
    measure_perfect_play,
    solved_sets,
)
from gomoku_jax.suites.tactics import (
    SolveRate,
    SolveRates,
    TacticalSuite,
    solve_rates,
    tactics_suite,
)

__all__ = [
    "FoursSuite",
    "KeptRate",
    "KeptWins",
    "PerfectPlay",
    "Share",
    "SolveRate",
    "SolveRates",
    "SolvedPositions",
    "TacticalSuite",
    "fours_suite",
    "keeps_win",
    "kept_share",
    "kept_wins",
    "load_solved",
    "measure_perfect_play",
    "solve_rates",
    "solved_sets",
    "tactics_suite",
]
