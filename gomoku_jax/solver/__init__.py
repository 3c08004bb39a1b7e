"""Perfect play on small boards: an exact solver, compiled by Numba (the extra `solver`)."""

from gomoku_jax.solver.solver import Solver, SolverError

__all__ = ["Solver", "SolverError"]
