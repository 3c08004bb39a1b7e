"""How strong: maximum-likelihood Elo with bootstrap intervals, and a sequential test of "is it stronger".

NumPy and SciPy on the host; what is rated are results, whoever played them.
"""

from gomoku_jax.rating.elo import PlayerRating, Ratings, fit_elo
from gomoku_jax.rating.pairing import Pairing, merge_pairings, pair_outcomes
from gomoku_jax.rating.sprt import SprtResult, SprtState, pentanomial, run_sprt, sprt
from gomoku_jax.rating.tables import crosstable, pair_table, rating_table

__all__ = [
    "Pairing",
    "PlayerRating",
    "Ratings",
    "SprtResult",
    "SprtState",
    "crosstable",
    "fit_elo",
    "merge_pairings",
    "pair_outcomes",
    "pair_table",
    "pentanomial",
    "rating_table",
    "run_sprt",
    "sprt",
]
