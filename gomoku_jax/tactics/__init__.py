"""Forced wins: fives, fours and their blocks on every point, and victory by continuous fours."""

from gomoku_jax.tactics.points import blocks, fives, fours, open_fours
from gomoku_jax.tactics.vcf import NONE, UNKNOWN, WON, Vcf, check_bounds, solve_vcf

__all__ = [
    "NONE",
    "UNKNOWN",
    "WON",
    "Vcf",
    "blocks",
    "check_bounds",
    "fives",
    "fours",
    "open_fours",
    "solve_vcf",
]
