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

__all__ = [
    "PerfectPlay",
    "Share",
    "SolvedPositions",
    "kept_share",
    "load_solved",
    "measure_perfect_play",
    "solved_sets",
]
