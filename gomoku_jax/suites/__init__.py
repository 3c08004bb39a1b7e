"""Positions with right answers, and how agents do on them."""

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
    "PerfectPlay",
    "Share",
    "SolveRate",
    "SolveRates",
    "SolvedPositions",
    "TacticalSuite",
    "kept_share",
    "load_solved",
    "measure_perfect_play",
    "solve_rates",
    "solved_sets",
    "tactics_suite",
]
